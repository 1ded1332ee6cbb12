from __future__ import annotations

import os
import sys

from tests.helpers import lives, wait_until

from sitrepd.stack.bounded import Ran, run_bounded


def python(code: str, tmp_path, **limits) -> Ran:
    return run_bounded([sys.executable, "-c", code], env=os.environ, cwd=tmp_path, **{"timeout_s": 10, **limits})


def test_output_of_a_child_in_its_folder(tmp_path):
    assert python("import os; print(os.getcwd())", tmp_path) == Ran(f"{tmp_path}\n")


def test_a_child_that_takes_too_long_is_killed_with_what_it_started(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    ran = python(code, tmp_path, timeout_s=1)
    assert ran.reason == f"{sys.executable} did not finish within 1 s"
    pid = int((tmp_path / "pid").read_text())
    wait_until(lambda: not lives(pid))


def test_a_child_that_closes_its_output_and_stays_is_killed(tmp_path):
    code = "import os, time\nos.close(1); os.close(2)\ntime.sleep(60)"
    assert python(code, tmp_path, timeout_s=0.5).reason == f"{sys.executable} did not finish within 0.5 s"


def test_a_child_that_prints_too_much_is_killed(tmp_path):
    ran = python("import sys\nwhile True: sys.stderr.write('x' * 4096)", tmp_path, limit_bytes=100_000)
    assert ran.reason == f"{sys.executable} printed more than 100000 bytes"


def test_a_failure_carries_its_last_line(tmp_path):
    ran = python("print('so far'); raise SystemExit('no torch here')", tmp_path)
    assert ran == Ran("so far\n", f"{sys.executable} failed with exit code 1: no torch here")


def test_what_cannot_be_started_is_named(tmp_path):
    def reason(program: str, cwd) -> str | None:
        return run_bounded([program], env={}, cwd=cwd, timeout_s=5).reason

    assert reason("/nowhere/python", tmp_path) == "/nowhere/python cannot be run: No such file or directory"
    gone = tmp_path / "gone"
    assert (
        reason(sys.executable, gone) == f"{sys.executable} cannot be run: its working directory {gone} does not exist"
    )
    assert reason("a\0b", tmp_path) == "a\0b cannot be run: embedded null byte"
