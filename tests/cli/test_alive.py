"""Where process 1 waits for nobody's child, a zombie is for ever: it counts as ended everywhere."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest
from tests.cli.running import Sitrep
from tests.demo.running import command_line
from tests.helpers import all_ended, lives, wait_until

from sitrepd.cli import autostart
from sitrepd.cli.alive import lives as lives_to_the_command_line
from sitrepd.launches.outputs import stdout_target


@pytest.fixture
def zombie():
    child = subprocess.Popen([sys.executable, "-ISc", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    yield child.pid
    child.wait()


def test_a_zombie_has_ended(zombie: int) -> None:
    assert psutil.pid_exists(zombie)
    assert not lives(zombie)
    assert all_ended(zombie)
    assert not lives_to_the_command_line(zombie)
    assert command_line(psutil.Process(zombie)) == ""
    assert stdout_target(zombie).note == "the process is gone"
    assert lives(os.getpid())
    assert lives_to_the_command_line(os.getpid())


def test_a_zombie_holds_no_store(zombie: int, tmp_path) -> None:
    for holder, held in ((zombie, False), (os.getpid(), True), ("", False)):
        (tmp_path / "lock").write_text(f"{holder}\n")
        assert autostart._is_held(tmp_path) is held


@pytest.mark.slow
def test_shutdown_does_not_wait_for_a_zombie(sitrep: Sitrep) -> None:
    """The daemon is a child of this process here, and nobody waits for it until the command has said its word."""
    child = subprocess.Popen(sitrep.command("serve", "--port", "0"), env=sitrep.environment(), stderr=subprocess.PIPE)
    try:
        wait_until(sitrep.daemon_pid, 30)
        assert sitrep("shutdown").ok().out == f"The daemon (pid {child.pid}) has ended.\n"
        assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    finally:
        child.communicate(timeout=20)
