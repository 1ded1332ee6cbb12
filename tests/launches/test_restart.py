"""A new reader and a new parser go on exactly where the old ones stopped."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.launches.reading import LOGS, SEEN, read_file

from sitrepd.launches.engines import engine_named
from sitrepd.launches.engines.base import LogEvent
from sitrepd.launches.follow import LogFollower, LogPosition

SMALL = "\n".join(
    [
        "\x1b[1;33m'--cuda-graph-max-bs' is deprecated. Use '--cuda-graph-max-bs-decode' instead.\x1b[0m",
        "[2026-12-01 01:20:40] server_args={'speculative_algorithm': 'EAGLE3', 'api_key': 'sk-abcdefghijklmnop1234'}",
        "[2026-12-01 01:21:08 TP0] Init parallel begin.",
        "[2026-12-01 01:21:08 TP1] Init parallel begin.\r",
        "[2026-12-01 01:21:09 TP1] Init parallel ends. elapsed=0.19 s",
        "[2026-12-01 01:21:09 TP0] Init parallel ends. elapsed=0.20 s\r",
        "[2026-12-01 01:21:10 TP0] Load weight begin. avail mem=139.09 GB",
        "\rMulti-thread loading shards:   0% Completed | 0/2 [00:00<?, ?it/s]"
        "\rMulti-thread loading shards: 100% Completed | 2/2 [00:02<00:00,  3.42it/s]",
        "[2026-12-01 01:21:12 TP0] Load weight end. elapsed=2.47 s, type=Llama, avail mem=1.00 GB, mem usage=13.50 GB.",
        "[2026-12-01 01:21:13 TP0] KV Cache is allocated. dtype: bf16, #tokens: 4, K size: 0.83 GB, V size: 0.83 GB",
        "[2026-12-01 01:21:13 TP0] Memory pool end. avail mem=69.55 GB",
        "[2026-12-01 01:21:14 TP0] Capture target verify CUDA graph begin. backend=full, avail mem=68.10 GB",
        "\r  0%|          | 0/8 [00:00<?, ?it/s]\rCapturing batches (bs=8):  12%|█▎       | 1/8 [00:02<00:19,  2.8s/it]"
        "[aiter] nothing",
        "[2026-12-01 01:21:20 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "scheduler.py", line 1, in run',
        "ValueError: naïve",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        "RuntimeError: second",
        "",
        "[2026-12-01 01:21:20] Received sigquit from a child process. It usually means the child failed.",
        "",
    ]
).encode()


def _in_two(log: Path, whole: bytes, cut: int) -> list[LogEvent]:
    engine = engine_named("sglang")
    log.write_bytes(whole[:cut])
    parser, follower = engine.parser(tz=UTC), LogFollower(log)
    events = [event for line in _lines(follower) for event in parser.feed(line, SEEN)]
    parser.peek(follower.partial, SEEN)
    position = follower.position
    assert position is not None
    saved = json.loads(json.dumps({"position": position.to_json(), "parser": parser.state()}))
    follower.close()

    with log.open("ab") as file:
        file.write(whole[cut:])
    parser, follower = (
        engine.parser(saved["parser"], tz=UTC),
        LogFollower(log, LogPosition.from_json(saved["position"])),
    )
    events += [event for line in _lines(follower) for event in parser.feed(line, SEEN)]
    events += [event for line in follower.finish() for event in parser.feed(line, SEEN)]
    follower.close()
    return events + parser.finish(SEEN)


def _lines(follower: LogFollower) -> list[str]:
    lines = follower.read()
    while not follower.at_end:
        lines += follower.read()
    return lines


@pytest.mark.slow
def test_halves_give_the_events_of_the_whole_at_every_byte(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(SMALL)
    whole = read_file(log)
    assert len(whole) > 20

    for cut in range(len(SMALL) + 1):
        assert _in_two(log, SMALL, cut) == whole, f"cut at byte {cut}: {SMALL[cut - 20 : cut]!r}"


@pytest.mark.parametrize("name", ["h200-0.5.16-eagle3-s3", "h200-0.5.16-fail-draft-hidden", "cpu-0.5.23-tp2-ranks"])
def test_recordings_read_in_two_halves(tmp_path: Path, name: str) -> None:
    data = (LOGS / f"{name}.log").read_bytes()
    whole = read_file(LOGS / f"{name}.log")
    for cut in range(1, len(data), len(data) // 7):
        assert _in_two(tmp_path / "log", data, cut) == whole


FRAGMENTS = st.sampled_from(
    [
        "[2026-12-01 01:21:08 TP0] ",
        "[2026-12-01 01:21:08] ",
        "Load weight begin. avail mem=1.00 GB",
        "Load weight end. elapsed=2.47 s, type=Llama",
        "Memory pool end.",
        "Capture draft decode CUDA graph begin",
        "Capture draft decode CUDA graph end. elapsed=1.00 s",
        "Init parallel begin.",
        "KV Cache is allocated. #tokens: 5, K size: 1.00 GB",
        "Scheduler hit an exception: Traceback (most recent call last):",
        "Traceback (most recent call last):",
        "ValueError: x",
        "shards:  25% Completed | 2/8 [00:01<00:02,  2.17it/s]",
        "  0%|          | 0/58 [00:00<?, ?it/s]",
        "server_args={'a': (1, [2), 'b'",
        "Received sigquit",
        "The server is fired up and ready to roll!",
        "INFO:     Uvicorn running on http://a:1",
        "Decode batch, #a: 1, b: x, #token: y",
        "\x1b[0m",
        "usage: ",
        "x: error: y",
    ]
)


@given(lines=st.lists(st.one_of(st.text(max_size=40), st.lists(FRAGMENTS, max_size=4).map("".join)), max_size=25))
def test_no_text_breaks_a_parser_or_its_state(lines: list[str]) -> None:
    for name in ("sglang", "generic"):
        engine = engine_named(name, ready_pattern="fired")
        straight, saved = engine.parser(tz=UTC), None
        events, restarted = [], []
        for line in lines:
            events += straight.feed(line, SEEN)
            parser = engine.parser(saved, tz=UTC)
            parser.peek(line, SEEN)
            restarted += parser.feed(line, SEEN)
            saved = json.loads(json.dumps(parser.state()))
        assert restarted == events
        assert engine.parser(saved, tz=UTC).finish(SEEN) == straight.finish(SEEN)
