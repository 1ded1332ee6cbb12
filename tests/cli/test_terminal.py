"""What a terminal shows: colour and bars, which a pipe never gets."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S, free_port

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


def on_terminal(sitrep: Sitrep, *words: str) -> tuple[int, str]:
    """Exit status and all that was written to a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    environment = {name: value for name, value in sitrep.environment(**terminal).items() if name != "NO_COLOR"}
    command = ["env", "-i", *(f"{name}={value}" for name, value in environment.items()), *sitrep.command(*words)]
    process = _spawn(command, theirs, sitrep.cwd)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    return process.wait(PATIENCE_S), said.decode()


def _spawn(command: list[str], terminal: int, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=cwd, start_new_session=True)


def test_tables_have_titles_in_bold_and_nothing_is_cut(shared: Sitrep) -> None:
    command = "python -m sglang.launch_server " + " ".join(f"--flag-{number} value" for number in range(30))
    shared("launch", "record", command, "--name", "[bold]long[/bold]").ok()
    code, said = on_terminal(shared, "launches")
    assert code == 0
    assert "\x1b[1m" in said
    plain = _ESCAPES.sub("", said)
    assert "[bold]long[/bold]" in plain, "told text is no markup"
    assert f"    command: {command}" in plain.splitlines(), "a long one stands on a line of its own, whole"
    assert "COMMAND" not in plain
    code, said = on_terminal(shared, "sessions")
    assert _ESCAPES.sub("", said).splitlines()[0].split()[:3] == ["ID", "STATE", "NAME"]


def test_a_command_of_a_checkpoint_can_be_copied_and_told_text_keeps_its_marks(shared: Sitrep) -> None:
    session = shared("session", "open", "copied", "--json").json["id"]
    command = "python -m sglang.launch_server " + " ".join(f"--flag-{number} value" for number in range(30))
    shared("launch", "record", command, "--state", "loading", "--session", session).ok()
    shared("directive", "add", "keep *all* of __this__", "--session", session).ok()
    code, said = on_terminal(shared, "checkpoint", "--session", session)
    shared("session", "close", session).ok()
    assert code == 0
    lines = [line.rstrip() for line in _ESCAPES.sub("", said).splitlines()]
    assert command in lines
    assert any("keep *all* of __this__" in line for line in lines)


def test_told_text_cannot_rule_the_terminal(shared: Sitrep) -> None:
    shared("directive", "add", "be \x1b]0;evil\x07\x1b[2J quick").ok()
    for words in (["directive"], ["checkpoint"], ["show", shared("directive", "--json").json["data"][0]["id"]]):
        code, said = on_terminal(shared, *words)
        assert code == 0
        assert "\x1b[2J" not in said
        assert "\x1b]0" not in said
        assert "quick" in said


def test_a_checkpoint_is_set_as_text(shared: Sitrep) -> None:
    code, said = on_terminal(shared, "resume")
    assert code == 0
    assert "##" not in said
    assert "Goal and directives" in _ESCAPES.sub("", said)


@pytest.mark.slow
def test_a_start_has_a_bar_and_the_time_left(shared: Sitrep) -> None:
    replay = ["-m", "sitrepd.demo.replay", "--port", str(free_port()), "--duration", "3"]
    code, said = on_terminal(shared, "launch", "--engine", "sglang", "--watch", "--", sys.executable, *replay)
    assert code == 0, said
    plain = _ESCAPES.sub("", said)
    assert "━" in plain
    assert re.search(r"\d+ % \(\d+ of 64 shards\)", plain)
    name = plain.split()[0]
    assert re.search(rf"{name} is ready after \d", plain)
    shared("stop", name).ok()
