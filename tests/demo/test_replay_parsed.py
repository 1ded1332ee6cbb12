"""The replay's log, read by the parser that reads real ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from tests.demo.replaying import READY, Replay
from tests.helpers import PATIENCE_S
from tests.launches.reading import EAGLE_PHASES as PHASES

from sitrepd.launches.engines import engine_for
from sitrepd.launches.engines.base import Failed, Listening, LogEvent, PhaseBegan, PhaseEnded, PhaseProgress, Ready
from sitrepd.launches.engines.base import Settings as SettingsEvent
from sitrepd.launches.engines.sglang import SglangEngine

Start = Callable[..., Replay]


def _events(replay: Replay) -> list[LogEvent]:
    parser = SglangEngine().parser()
    now = datetime.now(UTC)
    lines = replay.text().split("\n")[:-1]
    return [event for line in lines for event in parser.feed(line, now)] + parser.finish(now)


@pytest.mark.parametrize("version", ["0.5.16", "0.5.23"])
def test_parser_sees_every_phase_once_and_in_order(start: Start, version: str) -> None:
    replay = start("--engine-version", version)
    replay.wait_for(READY)
    replay.end()

    events = _events(replay)
    began = [event.phase for event in events if isinstance(event, PhaseBegan)]
    assert began == [phase for phase in PHASES if phase in began]
    assert set(began) >= set(PHASES) - {"starting", "warmup"}
    assert {event.phase for event in events if isinstance(event, PhaseEnded)} >= set(began) - {"warmup"}
    assert [event.text for event in events if isinstance(event, Ready)] == [READY]
    assert not [event for event in events if isinstance(event, Failed)]
    assert replay.port in [event.port for event in events if isinstance(event, Listening)]
    bars = [event for event in events if isinstance(event, PhaseProgress) and event.phase == "load_weights"]
    assert (bars[0].total, bars[-1].done) == (64, 64)
    settings = next(event.values for event in events if isinstance(event, SettingsEvent))
    assert (settings["tp_size"], settings["speculative_num_steps"]) == (8, 3)


@pytest.mark.parametrize(
    ("kind", "phase", "cause"),
    [
        ("oom", "capture_verify", "CUDA out of memory"),
        ("missing-weights", "load_weights", "missing from"),
        ("draft-shape", "load_draft_weights", "Attempted to load weight"),
    ],
)
def test_parser_names_the_failure_and_its_phase(start: Start, kind: str, phase: str, cause: str) -> None:
    replay = start("--fail", kind)
    replay.process.wait(PATIENCE_S)

    first = next(event for event in _events(replay) if isinstance(event, Failed))
    assert first.first
    assert first.phase == phase
    assert cause in first.cause


def test_detector_takes_it_for_sglang_when_asked_to(start: Start) -> None:
    flags = ["-m", "sglang.launch_server", "--model-path", "/shared/kimi-k2.5-int4", "--tp-size", "8"]
    replay = start(*flags, "--fail", "missing-weights")
    replay.process.wait(PATIENCE_S)

    assert engine_for(replay.argv).name == "sglang"
    facts = SglangEngine().describe(replay.argv, {})
    assert (facts.model_path, facts.tp_size) == ("/shared/kimi-k2.5-int4", 8)
    assert "missing from /shared/kimi-k2.5-int4 " in replay.text()
    assert engine_for([word for word in replay.argv if word != "sglang.launch_server"]).name == "generic"
