from __future__ import annotations

import gzip
import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from tests.backfill.projects import DATA, EAGLE, log, only_start, read, reasons, utc, write
from tests.launches.test_vllm_log import ONE_GPU

from sitrepd.backfill.thin import Thinner
from sitrepd.launches.course import spans

BATCHES = "".join(
    f"[2026-12-01 01:{22 + i // 600:02d}:{i // 10 % 60:02d}] "
    + (
        f"Decode batch, #running-req: 4, #token: {i}, token usage: 0.04, accept len: 2.81, accept rate: 0.60, "
        f"cuda graph: True, gen throughput (token/s): {i}.5, #queue-req: 0\n"
        if i % 3
        else 'INFO:     127.0.0.1:4000 - "POST /generate HTTP/1.1" 200 OK\n'
    )
    for i in range(6000)
)


def test_a_start_is_read_with_its_phases_settings_and_end(tmp_path: Path) -> None:
    write(tmp_path / "eagle.out", log(EAGLE))
    start = only_start(tmp_path)
    assert (start.engine, start.state, start.port, start.model, start.draft) == (
        "sglang", "exited", 8000, "/models/target", "/models/draft",
    )  # fmt: skip
    assert start.started_at == utc("2026-12-01 01:20:40")
    assert start.ready_at == utc("2026-12-01 01:21:33")
    assert start.settings["speculative_num_steps"] == 3
    names = [phase["name"] for phase in start.phases]
    assert {"dist_init", "load_weights", "load_draft_weights", "kv_cache", "capture_verify", "warmup"} <= set(names)
    assert all(phase["ended_at"] >= phase["started_at"] for phase in start.phases)
    assert {"weight_bytes", "kv_tokens"} <= {size["name"] for size in start.sizes}
    assert start.failure is None
    assert start.cause is None


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("h200-0.5.16-fail-memfraction", "memory_kv_pool"),
        ("h200-0.5.16-fail-context-len", "context_length"),
        ("h200-0.5.16-fail-draft-hidden", "draft_model"),
        ("cpu-0.5.23-port-in-use", "port_in_use"),
        ("cpu-0.5.23-model-path-missing", "model_not_found"),
    ],
)
def test_a_failure_is_diagnosed_with_the_lines_of_its_log(tmp_path: Path, name: str, category: str) -> None:
    write(tmp_path / "server.log", log(name))
    start = only_start(tmp_path)
    assert (start.state, (start.cause or {})["category"]) == ("failed", category)
    assert start.failure
    lines = re.split(r"\n", log(name))
    for one in (start.cause or {})["evidence"]:
        assert one["text"][:40] in lines[one["line"] - 1] or not one["line"]


def test_several_starts_in_one_log_are_as_many_launches(tmp_path: Path) -> None:
    write(tmp_path / "server.log", log("h200-0.5.16-eagle3-s2") + log(EAGLE) + log("h200-0.5.16-fail-memfraction"))
    found = read(tmp_path)
    by_seed = {start.seed: start for start in found.starts}
    assert [start.state for start in by_seed.values()].count("failed") == 1
    assert len(by_seed) == 3
    failed = by_seed[846005047]
    lines = (tmp_path / "server.log").read_bytes().decode().split("\n")
    assert all(one["text"][:30] in lines[one["line"] - 1] for one in (failed.cause or {})["evidence"])
    assert by_seed[253890220].settings["speculative_num_steps"] == 3
    assert by_seed[710056229].settings["speculative_num_steps"] == 2
    assert any("random_seed=253890220" in line for line in lines[by_seed[253890220].line - 1 :][:30])


def test_a_copy_and_a_packed_log_count_once_whichever_tells_more(tmp_path: Path) -> None:
    whole = log(EAGLE)
    write(tmp_path / "a" / "copy.log", whole[: whole.index("Capture target verify CUDA graph begin")])
    (tmp_path / "b.log.1.gz").write_bytes(gzip.compress(whole.encode()))
    write(tmp_path / "joined.log", "nohup: ignoring input\n" + log("h200-0.5.16-eagle3-s2") + whole)
    found = read(tmp_path)
    assert sorted(start.seed or 0 for start in found.starts) == [253890220, 710056229]
    assert {start.state for start in found.starts} == {"exited"}
    assert "shows the same start" in reasons(found)["copy.log"]


def test_a_log_that_only_stops_leaves_the_end_open(tmp_path: Path) -> None:
    text = log(EAGLE)
    write(tmp_path / "s.log", text[: text.index("SIGTERM")].rpartition("\n")[0] + "\n")
    start = only_start(tmp_path)
    assert start.state == "lost"
    assert start.ready_at is not None


def test_figures_of_days_are_passed_over_and_lines_keep_their_numbers(tmp_path: Path) -> None:
    failed = log("h200-0.5.16-fail-memfraction")
    write(tmp_path / "s.log", log(EAGLE).partition("SIGTERM")[0].rpartition("\n")[0] + "\n" + BATCHES + failed)
    found = read(tmp_path)
    ready, broken = found.starts
    assert ready.last_at == utc("2026-12-01 01:31:59")
    assert (ready.throughput or {})["gen_tok_s"] > 0
    lines = (tmp_path / "s.log").read_bytes().decode().split("\n")
    assert all(one["text"][:30] in lines[one["line"] - 1] for one in (broken.cause or {})["evidence"])


def test_a_flood_of_unknown_lines_is_searched_and_not_read_line_by_line() -> None:
    noise = b"".join(b"[2026-12-01 01:00:00] something else %d\n" % i for i in range(50_000))
    thinner = Thinner("sglang")
    first = list(thinner.lines(noise))
    second = list(thinner.lines(noise + b"[2026-12-01 01:00:00] Scheduler hit an exception: x\n" + noise))
    assert len(first) < 40_000
    assert len(second) < 1000
    hit = next(line for line in second if b"hit an exception" in line.text)
    assert hit.number == 100_001
    assert second[0].gap


def test_what_a_container_engine_has_wrapped_is_unwrapped(tmp_path: Path) -> None:
    lines = log(EAGLE).split("\n")
    write(
        tmp_path / "abc-json.log",
        "".join(
            json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-12-01T01:20:40Z"}) + "\n"
            for line in lines
        ),
    )
    write(
        tmp_path / "compose" / "c.log",
        "".join(f"sglang-1  | {line}\n" for line in log("h200-0.5.16-eagle3-s2").split("\n")),
    )
    found = read(tmp_path)
    assert {(start.seed, start.state, start.port) for start in found.starts} == {
        (710056229, "exited", 30000), (253890220, "exited", 8000),
    }  # fmt: skip


def test_vllm_is_read_too_with_the_year_that_its_lines_do_not_tell(tmp_path: Path) -> None:
    write(tmp_path / "vllm.log", "\n".join(ONE_GPU) + "\n", utc("2025-12-02 00:00"))
    start = only_start(tmp_path)
    assert (start.engine, start.model, start.port, start.state) == ("vllm", "/models/target", 8011, "lost")
    assert start.started_at == utc("2025-12-01 01:02:03")
    assert start.ready_at is not None
    assert start.last_at == utc("2025-12-01 01:03:40")
    assert "sk-not" not in str(start)


def test_a_log_without_times_takes_that_of_its_file_and_says_so(tmp_path: Path) -> None:
    at = utc("2026-02-03 04:05:06")
    write(
        tmp_path / "nohup.out",
        "usage: launch_server.py [-h] --model-path MODEL\nlaunch_server.py: error: unrecognized arguments: --speculativ-num-steps 3\n",
        at,
    )
    start = only_start(tmp_path)
    assert (start.state, start.started_at, start.last_at, start.timed) == ("failed", None, at, False)
    assert (start.cause or {})["category"] == "bad_flag"
    assert any("has no times" in one for one in start.warnings)


def test_the_zone_of_the_times_can_be_told(tmp_path: Path) -> None:
    from sitrepd.backfill.run import find

    write(tmp_path / "s.log", log(EAGLE))
    (start,) = find([str(tmp_path)], "Asia/Tokyo").starts
    assert start.started_at == utc("2026-12-01 01:20:40") - timedelta(hours=9)


def test_the_rest_of_a_rotated_log_is_no_start(tmp_path: Path) -> None:
    write(tmp_path / "server.log", BATCHES)
    found = read(tmp_path)
    assert not found.starts
    assert "shows no start" in reasons(found)["server.log"]


def test_phases_give_the_same_history_as_a_watched_start(tmp_path: Path) -> None:
    from types import SimpleNamespace

    write(tmp_path / "s.log", log(EAGLE))
    start = only_start(tmp_path)
    rows = [SimpleNamespace(**{"total": None, "done": None, "ended_at": None} | phase) for phase in start.phases]
    told = spans(rows, start.ready_at)
    assert start.ready_at is not None
    assert start.started_at is not None
    assert sum(told.values()) == pytest.approx((start.ready_at - start.started_at).total_seconds(), abs=1)


@pytest.mark.parametrize("path", sorted((DATA / "logs").glob("*.log")), ids=lambda path: path.stem)
def test_every_recorded_log_is_one_start(tmp_path: Path, path: Path) -> None:
    write(tmp_path / "x", path.read_bytes().decode())
    start = only_start(tmp_path)
    served = any(path.stem.endswith(word) for word in ("success", "api-key", "cold-jit", "eagle3-s2", "eagle3-s3"))
    expected = "lost" if path.stem == "h200-0.5.16-fail-missing-shard" else "exited" if served else "failed"
    assert start.state == expected
