from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.stack.conftest import Environment

from sitrepd.stack.launched import Told, interpreter, read_stack, running, stored


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]
    process = subprocess.Popen(argv, cwd=tmp_path, env={"PATH": "/usr/bin", "MARK": "1"}, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process:
        process.stdout.readline()
        yield process
        process.kill()


def identity(pid: int) -> dict[str, Any]:
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return {"pid": pid, "start_ticks": int(ticks), "boot_id": boot}


def test_a_running_process_shows_how_it_was_started(child: subprocess.Popen[bytes], tmp_path: Path):
    way = running(Told(None, "python x.py", None, "/", identity(child.pid)))
    assert way is not None
    assert way.argv[0] == sys.executable
    assert way.env == {"PATH": "/usr/bin", "MARK": "1"}
    assert way.cwd == str(tmp_path)


@pytest.mark.parametrize("wrong", [{"start_ticks": 1}, {"boot_id": "another"}])
def test_another_process_of_that_pid_shows_nothing(child: subprocess.Popen[bytes], wrong: dict[str, Any]):
    assert running(Told(None, "x", None, "/", {**identity(child.pid), **wrong})) is None


def test_what_was_told_is_run_by_a_shell():
    way = stored(Told(None, "cd /tmp && python x.py", {"A": "1"}, "/srv", None))
    assert way is not None
    assert list(way.argv) == ["/bin/sh", "-c", "cd /tmp && python x.py"]
    assert way.env == {**os.environ, "A": "1"}
    assert way.cwd == "/srv"


def test_nothing_was_told():
    assert read_stack(Told(None, None, None, None, None)).note == (
        "the packages are not known: no command was recorded"
    )


def test_what_fails_becomes_the_note():
    reading = read_stack(Told(["python\0"], None, None, "/", None))
    assert reading.note is not None
    assert reading.note.startswith("the packages are not known: ")


def test_the_python_that_runs_counts_more_than_the_one_that_its_words_name(venv: Environment, tmp_path: Path):
    library = venv.packages / "some" / "lib.so"
    library.parent.mkdir(exist_ok=True)
    library.write_bytes(b"\0" * 4096)
    script = (
        "import mmap, sys, time; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
        "print(flush=True); time.sleep(60)"
    )
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    words = ["python", "-c", script, str(library)]
    process = subprocess.Popen(
        words, executable=venv.python, env={"PATH": str(other.parent)}, stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert process.stdout is not None
    with process:
        process.stdout.readline()
        found = interpreter(Told(["bash", "serve.sh"], None, None, "/", None, identity(process.pid)))
        process.kill()
    assert found.path == venv.python
    assert found.cwd == str(tmp_path)


def test_a_process_that_sees_other_files_is_not_asked_here(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    reading = read_stack(Told(None, "python x.py", None, "/", identity(child.pid)))
    assert reading.packages == {}
    assert reading.note == (
        "the packages are not known: it runs in a container, or below another root, where they cannot be asked"
    )
