from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.launches.fakes import until

from sitrepd.launches.outputs import stdout_target


def test_a_file_is_named_also_when_it_was_deleted(tmp_path: Path) -> None:
    log = tmp_path / "server log"
    with log.open("wb") as file, subprocess.Popen(["sleep", "50"], stdout=file, stderr=file) as process:
        target = stdout_target(process.pid)
        assert (target.kind, target.path, target.readable_path, target.note) == ("file", str(log), str(log), None)
        assert stdout_target(process.pid, 2) == target
        file.write(b"text")
        file.flush()
        log.unlink()
        target = stdout_target(process.pid)
        assert (target.path, target.deleted, target.note) == (str(log), True, "the file was deleted")
        assert target.readable_path
        assert Path(target.readable_path).read_text() == "text"
        log.write_text("another")
        assert stdout_target(process.pid).readable_path == target.readable_path
        process.kill()


def test_a_pipe_to_tee_is_the_file_that_tee_writes(tmp_path: Path) -> None:
    text = "sleep 50 2>&1 | tee 'a b.log'"
    with subprocess.Popen(["bash", "-c", text], cwd=tmp_path, start_new_session=True) as shell:
        children = until(lambda: set(kids := _children(shell.pid)) == {"sleep", "tee"} and kids)
        target = until(lambda: (one := stdout_target(children["sleep"])).path and one)
        assert (target.kind, target.path, target.readable_path) == ("pipe", *[str(tmp_path / "a b.log")] * 2)
        assert target.note == f"through tee ({children['tee']})"
        os.killpg(shell.pid, 9)


@pytest.mark.parametrize(
    "line",
    [
        "sleep 50 2>&1 | grep --line-buffered -v noise > 'a b.log'",
        "sleep 50 2>&1 | sed -u s/a/b/ | tee 'a b.log' | cat > /dev/null",
        "sleep 50 2>&1 | cat | cat >> 'a b.log'",
    ],
)
def test_a_pipe_is_followed_through_filters(tmp_path: Path, line: str) -> None:
    with subprocess.Popen(["bash", "-c", line], cwd=tmp_path, start_new_session=True) as shell:
        sleep = until(lambda: _children(shell.pid).get("sleep"))
        target = until(lambda: (one := stdout_target(sleep)).path and one)
        assert (target.kind, target.path) == ("pipe", str(tmp_path / "a b.log"))
        os.killpg(shell.pid, 9)


def test_what_another_program_makes_of_a_pipe_is_no_log(tmp_path: Path) -> None:
    with subprocess.Popen(
        ["bash", "-c", "sleep 50 | python3 -c 'input()' > report.txt"], cwd=tmp_path, start_new_session=True
    ) as shell:
        children = until(lambda: len(kids := _children(shell.pid)) == 2 and "sleep" in kids and kids)
        until((tmp_path / "report.txt").exists)
        assert stdout_target(children["sleep"]).path is None
        os.killpg(shell.pid, 9)


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script (bsdutils)")
def test_a_terminal_that_script_writes_down_is_its_file(tmp_path: Path) -> None:
    words = ["script", "-qfc", "sleep 50", "a b.log"]
    with subprocess.Popen(
        words, cwd=tmp_path, start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as shell:
        sleep = until(lambda: _below(shell.pid).get("sleep"))
        target = until(lambda: (one := stdout_target(sleep)).path and one)
        assert (target.kind, target.path) == ("terminal", str(tmp_path / "a b.log"))
        os.kill(sleep, 9)


def _below(pid: int) -> dict[str, int]:
    """Children and theirs, by name."""
    found = _children(pid)
    return found | {name: child for one in found.values() for name, child in _children(one).items()}


def _children(pid: int) -> dict[str, int]:
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {Path(f"/proc/{child}/comm").read_text().strip(): int(child) for child in pids}


@pytest.mark.parametrize(
    ("stdout", "kind", "note"), [(subprocess.PIPE, "pipe", "a pipe"), (subprocess.DEVNULL, "null", "thrown away")]
)
def test_what_is_no_file_is_said(stdout: int, kind: str, note: str) -> None:
    with subprocess.Popen(["sleep", "50"], stdout=stdout) as process:
        target = stdout_target(process.pid)
        process.kill()
    assert (target.kind, target.path) == (kind, None)
    assert target.note
    assert note in target.note


def test_a_terminal_and_a_closed_descriptor_are_said() -> None:
    master, slave = pty.openpty()
    with (
        open(master, "rb"),
        open(slave, "wb") as terminal,
        subprocess.Popen(["sleep", "50"], stdout=terminal) as process,
    ):
        target = stdout_target(process.pid)
        process.kill()
    assert target.kind == "terminal"
    assert stdout_target(process.pid).note == "the process is gone"
    with subprocess.Popen(["bash", "-c", "exec sleep 50 >&-"]) as process:
        until(lambda: stdout_target(process.pid).kind == "closed")
        process.kill()
