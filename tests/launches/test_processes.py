from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest
from tests.launches.fakes import gone, until

from sitrepd.launches.processes import (
    boot_id,
    identify,
    is_alive,
    process_tree,
    read_argv,
    read_cwd,
    read_environ,
    read_stat,
    read_stats,
    send_signal,
    server_in_shell,
    started_at,
    tree_counters,
)

PYTHON = [sys.executable, "-I", "-S", "-c"]
FAMILY = """
import os, sys, time
def child(*, session):
    pid = os.fork()
    if pid: return pid
    if session: os.setsid()
    while True: time.sleep(60)
print(child(session=False), child(session=True), flush=True)
while True: time.sleep(60)
"""


@pytest.fixture
def family() -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A process in a session of its own with two children, the second in yet another session."""
    process = subprocess.Popen([*PYTHON, FAMILY], stdout=subprocess.PIPE, start_new_session=True)
    with process:
        assert process.stdout
        children = [int(word) for word in process.stdout.readline().split()]
        until(lambda: os.getsid(children[1]) == children[1])
        yield process, children
        for pid in [process.pid, *children]:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


def test_an_identity_agrees_with_psutil() -> None:
    me = identify(os.getpid())
    assert me
    assert is_alive(me)
    assert started_at(me.start_ticks).timestamp() == pytest.approx(psutil.Process().create_time(), abs=0.011)
    stat = read_stat(os.getpid())
    assert stat
    assert (stat.parent, stat.session, stat.group) == (os.getppid(), os.getsid(0), os.getpgid(0))
    assert stat.rss_bytes == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)


def test_a_zombie_and_a_reused_pid_are_not_alive() -> None:
    process = subprocess.Popen([*PYTHON, "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    with process:
        identity = identify(process.pid)
        assert identity
        assert not is_alive(replace(identity, start_ticks=identity.start_ticks + 1))
        assert not is_alive(replace(identity, boot_id="other"))
        assert not send_signal(replace(identity, start_ticks=identity.start_ticks + 1), signal.SIGKILL)
        assert process.stdin
        process.stdin.close()
        until(lambda: gone(process.pid))
        assert not is_alive(identity)
        assert not send_signal(identity, signal.SIGKILL)
    assert identify(process.pid) is None
    assert not send_signal(identity, signal.SIGKILL)


def test_kernels_without_pidfds_are_served_too(
    monkeypatch: pytest.MonkeyPatch, family: tuple[subprocess.Popen[bytes], list[int]]
) -> None:
    def no_pidfd(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", no_pidfd)
    identity = identify(family[0].pid)
    assert identity
    assert not send_signal(replace(identity, start_ticks=1), signal.SIGKILL)
    assert send_signal(identity, signal.SIGKILL)
    until(lambda: not is_alive(identity))


def test_the_tree_has_descendants_and_the_session(family: tuple[subprocess.Popen[bytes], list[int]]) -> None:
    process, children = family
    main = identify(process.pid)
    assert main
    assert set(process_tree(main)) == {process.pid, *children}
    known = [identity for pid in children if (identity := identify(pid))]
    process.kill()
    process.wait()
    assert set(process_tree(main)) == {children[0]}  # by its session; the other one left it
    assert set(process_tree(main, known=known)) == set(children)
    assert set(process_tree(main, known=[replace(known[1], start_ticks=1)])) == {children[0]}
    assert process_tree(replace(main, boot_id="other")) == {}


def test_the_tree_claims_nothing_through_a_pid_that_changed_hands(
    family: tuple[subprocess.Popen[bytes], list[int]],
) -> None:
    main = identify(family[0].pid)
    assert main
    assert process_tree(replace(main, start_ticks=main.start_ticks - 5)) == {}


def test_the_server_in_a_shell_is_its_oldest_child() -> None:
    text = "sh -c 'sleep 50; true' | cat; true"
    with subprocess.Popen(["bash", "-c", text], start_new_session=True) as shell:
        identity = identify(shell.pid)
        assert identity
        found = until(lambda: (one := server_in_shell(identity)) and read_argv(one.pid) == ["sleep", "50"] and one)
        assert found
        assert server_in_shell(found) == found
        os.killpg(shell.pid, signal.SIGKILL)
    assert server_in_shell(identity) is None


def test_counters_add_up_over_a_tree(family: tuple[subprocess.Popen[bytes], list[int]]) -> None:
    process, children = family
    one, all_three = tree_counters([process.pid]), tree_counters([process.pid, *children, 2**22 + 1])
    assert (one.processes, all_three.processes, all_three.threads) == (1, 3, 3)
    assert all_three.rss_bytes > one.rss_bytes > 1 << 20
    assert one.read_bytes
    assert all_three.cpu_s >= one.cpu_s >= 0


def test_what_a_process_was_started_with_can_be_read() -> None:
    with subprocess.Popen(["sleep", "50"], env={"A": "1", "B": "x=y"}, cwd="/usr") as process:
        until(lambda: read_argv(process.pid) == ["sleep", "50"])
        assert read_environ(process.pid) == {"A": "1", "B": "x=y"}
        assert read_cwd(process.pid) == "/usr"
        process.kill()
    assert read_argv(process.pid) == []
    assert read_environ(process.pid) is None
    assert read_cwd(process.pid) is None


def test_all_processes_are_read(family: tuple[subprocess.Popen[bytes], list[int]]) -> None:
    stats = read_stats()
    assert {os.getpid(), family[0].pid, *family[1]} <= set(stats)
    assert len(boot_id()) == 36
