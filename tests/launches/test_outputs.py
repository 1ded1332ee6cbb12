from __future__ import annotations

import os
import pty
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
