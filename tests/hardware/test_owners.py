"""Real processes, and whose they are."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.helpers import wait_until

from sitrepd.hardware.gpus import GpuProcess
from sitrepd.hardware.owners import Root, own, owner, read_stat


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """A shell that leads a process session, and its child."""
    shell = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert shell.stdout is not None
    with shell:
        child = int(shell.stdout.readline())
        wait_until(lambda: (stat := read_stat(child)) and stat.name == "sleep")
        yield shell.pid, child
        with suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)


def key(pid: int) -> tuple[int, int]:
    stat = read_stat(pid)
    assert stat is not None
    return pid, stat.start_ticks


def test_a_child_belongs_to_the_launch_of_its_parent(family: tuple[int, int]):
    shell, child = family
    launches = [Root(9, (1, 1)), Root(4, key(shell))]
    assert owner(child, launches) == 4
    assert owner(shell, launches) == 4
    [owned] = own([GpuProcess(0, "GPU-0", child, 5, "compute")], launches)
    assert (owned.launch_id, owned.name) == (4, "sleep")


def test_a_pid_that_has_changed_hands_is_nobodys(family: tuple[int, int]):
    shell, child = family
    pid, ticks = key(shell)
    assert owner(child, [Root(4, (pid, ticks - 1))]) is None
    assert owner(child, []) is None


def test_a_process_that_is_gone_is_nobodys():
    [owned] = own([GpuProcess(0, "GPU-0", 2**22 + 1, 5, "compute")], [Root(4, (1, 1))])
    assert (owned.launch_id, owned.name) == (None, None)


def test_what_is_left_when_the_main_process_has_ended_is_still_the_launchs(family: tuple[int, int]):
    shell, child = family
    main = key(shell)
    os.kill(shell, signal.SIGKILL)
    os.waitid(os.P_PID, shell, os.WEXITED | os.WNOWAIT)
    assert owner(child, [Root(4, main)]) == 4, "the zombie still names the session"
    with suppress(ChildProcessError):
        os.waitpid(shell, 0)
    assert wait_until(lambda: read_stat(shell) is None)
    assert owner(child, [Root(4, main)]) == 4
    os.kill(child, signal.SIGKILL)


def test_orphans_belong_to_the_supervisors_launch(family: tuple[int, int]):
    shell, child = family
    assert owner(child, [Root(4, (1, 1), supervisor=key(shell))]) == 4
