"""What the end of a launch is called: a failure is what was neither asked for nor in order."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.launches.reading import LOGS

from sitrepd.launches.engines import engine_named
from sitrepd.launches.engines.base import Failed, Stopping
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.models import Launch
from sitrepd.launches.store import end_state, how_it_ended

NOW = datetime(2026, 12, 1, tzinfo=UTC)
ASKED: dict[str, Any] = {"process": {"said_stopping": True}}
_INTERRUPTED = """\
Traceback (most recent call last):
  File "/srv/venv/lib/python3.12/site-packages/sglang/launch_server.py", line 14, in <module>
    launch_server(server_args)
  File "/srv/venv/lib/python3.12/site-packages/sglang/srt/entrypoints/http_server.py", line 700, in launch_server
    data = pipe.recv()
KeyboardInterrupt
"""


@pytest.mark.parametrize(
    ("launch", "ended", "stopped", "state"),
    [
        ({}, {"exit_code": 0}, False, "exited"),
        ({}, {"exit_code": 1}, True, "exited"),
        ({}, {"signal": 15}, False, "exited"),
        ({}, {"signal": 2}, False, "exited"),
        ({}, {"exit_code": 130}, False, "exited"),
        ({}, {"exit_code": 143}, False, "exited"),
        ({"ready_at": NOW}, {"signal": 15}, False, "exited"),
        (ASKED, {"signal": 9}, False, "exited"),
        (ASKED | {"ready_at": NOW}, {"signal": 9}, False, "exited"),
        (ASKED, {"exit_code": 1}, False, "exited"),
        # It had failed, hung, and was ended for that.
        ({"failure": "CUDA out of memory"}, {"signal": 15}, False, "failed"),
        ({"failure": "CUDA out of memory"}, {"exit_code": 130}, False, "failed"),
        ({}, {"signal": 9}, False, "failed"),
        ({}, {"exit_code": 1}, False, "failed"),
        ({"ready_at": NOW}, {"signal": 11}, False, "failed"),
    ],
)
def test_how_it_ended(launch: dict[str, Any], ended: dict[str, Any], stopped: bool, state: str) -> None:
    assert end_state(Launch(at=NOW, provenance="user", **launch), Exit(known=True, **ended), stopped=stopped) == state


def test_what_nobody_saw_is_lost() -> None:
    unseen = Exit(known=False, reason="The machine was restarted.")
    assert end_state(Launch(at=NOW, provenance="user"), unseen, stopped=False) == "lost"
    assert end_state(Launch(at=NOW, provenance="user"), unseen, stopped=True) == "exited"
    assert how_it_ended(unseen) == "The machine was restarted."
    assert how_it_ended(Exit(known=True, signal=11)) == (
        "The process was ended by signal 11 (SIGSEGV); its log gives no cause."
    )


@pytest.mark.parametrize("engine", ["sglang", "vllm", "generic"])
def test_who_is_interrupted_from_the_keyboard_has_not_failed(engine: str) -> None:
    parser = engine_named(engine, None, None).parser(None)
    start = (LOGS / "h200-0.5.16-fail-memfraction.log").read_text().splitlines()[:8] if engine == "sglang" else []
    events = [event for line in [*start, *_INTERRUPTED.splitlines()] for event in parser.feed(line, NOW)]
    events += parser.finish(NOW)
    assert any(isinstance(event, Stopping) for event in events)
    assert not any(isinstance(event, Failed) for event in events)
