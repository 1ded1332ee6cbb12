from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.backfill.projects import EAGLE, log, read, reasons, result, utc, without_server, write

BASE, STEPS = "sglang-0.5.16-base", "sglang-0.5.16-eagle3-3-steps"
WHILE_READY = utc("2026-12-01 01:21:50")


def other_seed(line: str, seed: int | None = 1) -> str:
    told = json.loads(line)
    told["server_info"]["random_seed"] = seed
    if seed is None:
        del told["server_info"]["random_seed"]
    return json.dumps(told) + "\n"


def test_a_result_finds_its_server_by_the_seed(tmp_path: Path) -> None:
    write(tmp_path / "s3.log", log(EAGLE))
    write(tmp_path / "s2.log", log("h200-0.5.16-eagle3-s2"))
    write(tmp_path / "r" / "x.jsonl", result(STEPS), utc("2027-01-01 00:00"))
    found = read(tmp_path)
    (run,) = found.results
    start = next(start for start in found.starts if start.path.endswith("s3.log"))
    assert run.launch == start.key
    assert run.fact["at"] == start.last_at, "it ran while its server did, whenever the file was copied"
    assert run.fact["artifact"] == str(tmp_path / "r" / "x.jsonl")


def test_without_a_seed_by_port_model_settings_and_time(tmp_path: Path) -> None:
    write(tmp_path / "s.log", log(EAGLE))
    path = write(tmp_path / "x.jsonl", other_seed(result(STEPS), None), WHILE_READY)
    assert read(tmp_path).results[0].launch is not None
    write(path, other_seed(result(STEPS), None), WHILE_READY + timedelta(days=1))
    assert read(tmp_path).results[0].launch is None
    write(path, other_seed(result(STEPS), 1), WHILE_READY)
    assert read(tmp_path).results[0].launch is None, "another start drew that seed"
    write(path, other_seed(result(BASE), None), WHILE_READY)
    assert read(tmp_path).results[0].launch is None, "a server without speculation"
    write(path, without_server(result(STEPS)), WHILE_READY)
    assert read(tmp_path).results[0].launch is None, "it does not say which server it asked"


def test_a_line_that_is_cut_short_or_measured_nothing_does_not_take_the_others_along(tmp_path: Path) -> None:
    empty = json.dumps(json.loads(result(BASE)) | {"completed": 0}) + "\n"
    write(tmp_path / "all.jsonl", result(BASE) + empty + result(STEPS) + result(STEPS)[:900])
    found = read(tmp_path)
    assert len(found.results) == 2
    told = reasons(found)["all.jsonl"]
    assert told.startswith("line 2: no request was completed")
    assert "line 4: the line is cut short" in told


def test_indented_and_repeated_results_count_once(tmp_path: Path) -> None:
    write(tmp_path / "a.json", json.dumps(json.loads(result(BASE)), indent=2))
    write(tmp_path / "b.jsonl", result(BASE) + result(STEPS))
    found = read(tmp_path)
    assert len(found.results) == 2
    assert found.notes == ["Runs that stand in several files and count once: 1."]


def test_what_is_of_another_tool_is_named(tmp_path: Path) -> None:
    write(
        tmp_path / "one.jsonl",
        json.dumps({"run_name": "x", "batch_size": 1, "input_len": 2, "output_len": 3, "latency": 1.5}),
    )
    write(tmp_path / "gpu.jsonl", '{"t": 1, "util": 3}\n{"t": 2, "util": 4}\n')
    write(tmp_path / "config.json", '{"hidden_size": 4}')
    write(tmp_path / "bench.txt", "============ Serving Benchmark Result ============\nBackend: sglang\n")  # cut
    told = reasons(read(tmp_path))
    assert told["one.jsonl"] == "a result of sglang.bench_one_batch_server, which is not read"
    assert told["gpu.jsonl"] == "JSON objects with t, util: no result, and no training run"
    assert told["bench.txt"] == "its table of results has no end"
    assert "config.json" not in told


PRINTED = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Successful requests:                     {completed}
Benchmark duration (s):                  {duration:.2f}
Output token throughput (tok/s):         {output_throughput:.2f}
==================================================
"""


def test_what_a_tool_has_printed_is_a_run_too_but_not_a_second_one(tmp_path: Path) -> None:
    write(tmp_path / "bench.out", "warming up\n" + PRINTED.format(**json.loads(result(BASE))))
    (run,) = read(tmp_path).results
    assert str(run.fact["metrics"]["output_throughput"]["value"]) == "660.76"
    write(tmp_path / "x.jsonl", result(BASE))
    found = read(tmp_path)
    assert [Path(one.path).name for one in found.results] == ["x.jsonl"]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("naming", [{"endpoint_type": "vllm"}, {"backend": "vllm"}])
def test_a_result_of_vllm_says_when_it_ran(tmp_path: Path, naming: dict[str, str], indent: int | None) -> None:
    told = {
        "date": "20260301-140509", **naming, "label": None, "model_id": "/models/q", "tokenizer_id": "/models/q",
        "num_prompts": 80, "request_rate": "inf", "max_concurrency": 16, "duration": 12.5, "completed": 80,
        "total_input_tokens": 100, "total_output_tokens": 200, "request_throughput": 6.4, "output_throughput": 93.25,
        "mean_ttft_ms": 41.5,
    }  # fmt: skip
    write(tmp_path / "vllm-infqps.json", json.dumps(told, indent=indent))
    (run,) = read(tmp_path).results
    assert run.fact["tool"] == "vllm bench serve"
    assert str(run.fact["metrics"]["output_throughput"]["value"]) == "93.25"
    assert run.ended_at == datetime(2026, 3, 1, 14, 5, 9).astimezone(UTC)
    assert run.launch is None
