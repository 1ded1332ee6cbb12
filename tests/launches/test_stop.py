from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launches.fakes import gone, until

from sitrepd.launches.launchers.base import Launched, LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.processes import is_alive, send_signal
from sitrepd.launches.stop import StopLadder, stop

SERVER = """
import os, signal, sys, time
how, log = sys.argv[1], sys.argv[2]
ranks = []
for number in range(2):
    pid = os.fork()
    if not pid:
        if "stray" in how: os.setsid()
        signal.signal(signal.SIGTERM, lambda *_: print("rank got SIGTERM", flush=True))
        while True: time.sleep(60)
    ranks.append(pid)
print("ranks", *ranks, flush=True)
def drain(*_):
    print("draining", flush=True)
    if "clean" in how:
        for pid in ranks: os.kill(pid, signal.SIGKILL)
        for pid in ranks: os.waitpid(pid, 0)
    sys.exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in how else drain)
print("ready", flush=True)
while True: signal.pause()
"""


class Server:
    def __init__(self, folder: Path, how: str) -> None:
        self.log = folder / "log"
        self.launcher = LocalLauncher()
        argv = [sys.executable, "-I", "-S", "-c", SERVER, how, str(self.log)]
        self.launched: Launched = self.launcher.launch(LaunchRequest(folder / "state", self.log, folder, {}, argv=argv))
        until(lambda: "ready" in self.log.read_text())
        self.ranks = [int(word) for word in self.log.read_text().split("\n")[0].split()[1:]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    servers: list[Server] = []

    def _start(how: str) -> Server:
        servers.append(Server(tmp_path, how))
        return servers[-1]

    yield _start
    for server in servers:
        server.launcher.kill(server.launched)


def test_a_clean_server_gets_sigterm_alone_and_nothing_is_killed(start) -> None:
    server = start("clean")
    ladder = stop(server.launcher, server.launched, grace_s=10)
    assert ladder.exit
    assert ladder.exit.exit_code == 0
    assert ladder.killed == set()
    assert all(gone(rank) for rank in server.ranks)
    assert "draining" in server.log.read_text()
    assert "rank got SIGTERM" not in server.log.read_text()


@pytest.mark.parametrize("how", ["deaf", "deaf stray"])
def test_a_deaf_server_is_killed_with_its_ranks_after_the_grace(start, how: str) -> None:
    server = start(how)
    ladder = StopLadder(server.launcher, server.launched, grace_s=0.3)
    assert ladder.ask()
    assert ladder.step() == "asked"
    assert is_alive(server.launched.identity)
    until(lambda: ladder.step() == "stopped")
    assert ladder.exit
    assert ladder.exit.signal == signal.SIGKILL
    assert ladder.killed == {server.launched.identity.pid, *server.ranks}
    assert all(gone(rank) for rank in server.ranks)
    assert "rank got SIGTERM" not in server.log.read_text()


@pytest.mark.parametrize("how", ["leaves", "leaves stray"])
def test_ranks_that_outlive_a_clean_exit_are_killed(start, how: str) -> None:
    server = start(how)
    ladder = StopLadder(server.launcher, server.launched, grace_s=10, after_exit_s=0.2)
    until(lambda: ladder.step() == "stopped")
    assert ladder.exit
    assert ladder.exit.exit_code == 0
    assert [leftover.pid for leftover in ladder.exit.leftovers] == sorted(server.ranks)
    assert ladder.killed == set(server.ranks)


def test_stray_ranks_are_found_even_when_the_supervisor_was_killed(start) -> None:
    server = start("leaves stray")
    known = server.launcher.identities(server.launched)
    assert {identity.pid for identity in known} == {server.launched.identity.pid, *server.ranks}
    send_signal(server.launched.supervisor, signal.SIGKILL)
    until(lambda: gone(server.launched.supervisor.pid))
    server.launcher.signal(server.launched, signal.SIGTERM)
    until(lambda: gone(server.launched.identity.pid))
    assert set(server.launcher.kill(server.launched, known)) == set(server.ranks)


def test_stopping_what_has_ended_says_so(start) -> None:
    server = start("clean")
    stop(server.launcher, server.launched, grace_s=10)
    ladder = StopLadder(server.launcher, server.launched)
    assert not ladder.ask()
    assert ladder.step() == "stopped"
