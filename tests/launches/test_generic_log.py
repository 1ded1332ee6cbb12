"""Servers that nobody has taught Sitrep about."""

from __future__ import annotations

from tests.launches.reading import SEEN, feed, only, phases

from sitrepd.launches.engines import engine_named
from sitrepd.launches.engines.base import Failed, Listening, PhaseProgress, PortTaken, Ready
from sitrepd.launches.engines.generic import GenericEngine

LINES = [
    "INFO 12-01 01:00:00 starting",
    "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]",
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:10<00:10,  5.0s/it]",
    "Capturing CUDA graphs (mixed prefill-decode):  10%|█         | 3/30 [00:01<00:10,  2.5it/s]",
    "INFO:     Uvicorn running on http://0.0.0.0:8000 (Press CTRL+C to quit)",
    "INFO:     Application startup complete.",
    "Processed prompts: 100%|██████████| 3/3 [00:01<00:00,  2.5it/s]",
]


def test_bars_become_phases_and_the_pattern_readiness() -> None:
    events = feed(LINES, engine_named("generic", ready_pattern=r"Application startup complete\.").parser())

    names = ["starting", "load_weights", "capture_graphs"]
    assert phases(events) == [sign + name for name in names for sign in "+-"]
    assert [(event.phase, event.done, event.total, event.unit) for event in only(events, PhaseProgress)] == [
        ("load_weights", 0, 4, "shards"),
        ("load_weights", 2, 4, "shards"),
        ("capture_graphs", 3, 30, "graphs"),
    ]
    assert [event.text for event in only(events, Ready)] == ["INFO:     Application startup complete."]
    assert [event.port for event in only(events, Listening)] == [8000]


def test_without_a_pattern_no_line_is_readiness() -> None:
    assert only(feed([*LINES, "The server is fired up and ready to roll!"], GenericEngine().parser()), Ready) == []


def test_unfinished_bar_is_shown() -> None:
    parser = GenericEngine().parser()
    feed(LINES[:2], parser)
    shown = parser.peek(LINES[2], SEEN)
    assert [event.done for event in only(shown, PhaseProgress)] == [2]
    assert parser.peek("no bar", SEEN) == []


def test_bar_that_says_nothing_belongs_to_the_start() -> None:
    events = feed(["Building tree:  50%|█████     | 1.5k/3.0k [00:01<00:01, 99it/s]"], GenericEngine().parser())
    progress = [(event.phase, event.done, event.total, event.unit) for event in only(events, PhaseProgress)]
    assert progress == [("starting", 1500, 3000, "steps")]


def test_last_traceback_is_the_failure_only_at_the_end() -> None:
    parser = GenericEngine().parser()
    lines = ["Traceback (most recent call last):", '  File "a.py", line 1, in <module>', "OSError: no model"]
    assert only(feed(lines, parser), Failed) == []
    failed = only(parser.finish(SEEN), Failed)
    assert [(event.cause, event.phase) for event in failed] == [("OSError: no model", "starting")]


def test_taken_port_makes_readiness_suspect() -> None:
    taken = "OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use"
    events = feed([taken, "up"], engine_named("generic", ready_pattern="^up$").parser())
    assert [event.port for event in only(events, PortTaken)] == [8000]
    assert [event.suspect for event in only(events, Ready)] == [True]
