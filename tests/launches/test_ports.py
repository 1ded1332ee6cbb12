from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sitrepd.launches import ports
from sitrepd.launches.ports import listening, owns_listener, port_free, who_listens
from sitrepd.launches.sockets import by_proc, listening_sockets

SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
s.bind((sys.argv[1], 0)); s.listen()
print(s.getsockname()[1], flush=True)
sys.stdin.read()
"""


class Listening:
    def __init__(self, host: str) -> None:
        argv = [sys.executable, "-I", "-S", "-c", SERVER, host]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdout
        self.port = int(self.process.stdout.readline())

    @property
    def pid(self) -> int:
        return self.process.pid


@pytest.fixture
def listen() -> Iterator:
    started: list[Listening] = []

    def _listen(host: str = "127.0.0.1") -> Listening:
        started.append(Listening(host))
        return started[-1]

    yield _listen
    for one in started:
        with one.process:
            one.process.kill()


def test_the_owner_of_a_port_is_told_from_another_process(listen) -> None:
    server = listen()
    assert owns_listener(lambda: [os.getpid(), server.pid], server.port, "127.0.0.1")
    assert not owns_listener(lambda: [os.getpid()], server.port)
    assert owns_listener(lambda: [server.pid], server.port, net_of=server.pid)
    assert not owns_listener(lambda: [server.pid], server.port, "127.0.0.2")


def test_the_tree_is_not_asked_while_nobody_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        assert not owns_listener(lambda: pytest.fail("asked"), probe.getsockname()[1])


@pytest.mark.parametrize(
    ("bound", "host", "answers"),
    [
        ("127.0.0.1", None, True),
        ("127.0.0.1", "localhost", True),
        ("127.0.0.1", "0.0.0.0", True),
        ("127.0.0.1", "some-name", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("127.0.0.1", "::1", False),
        ("127.0.0.2", "127.0.0.2", True),
        ("::1", "[::1]", True),
        ("::1", "localhost", True),
        ("::1", "127.0.0.1", False),
    ],
)
def test_a_listener_is_found_where_it_answers(bound: str, host: str | None, answers: bool, listen) -> None:
    port = listen(bound).port
    found = listening(port, host)
    assert set(by_proc()) == set(listening_sockets())
    assert [one.address for one in found] == ([bound] if answers else [])


def test_who_listens_names_the_process(listen) -> None:
    server = listen()
    (found,) = who_listens(server.port)
    assert (found.pid, found.address, found.uid) == (server.pid, "127.0.0.1", os.getuid())
    assert found.argv
    assert found.argv[-1] == "127.0.0.1"


def test_a_port_is_free_until_somebody_listens(listen) -> None:
    server = listen()
    assert not port_free(server.port, "127.0.0.1")
    assert not port_free(server.port, "0.0.0.0")
    assert not port_free(server.port)
    port = server.port
    with server.process:
        server.process.kill()
    assert port_free(port, "127.0.0.1")
    assert who_listens(port) == []
    assert port_free(port, "::1")


def test_an_address_of_another_machine_is_said() -> None:
    with pytest.raises(OSError, match="assign requested address"):
        port_free(1234, "192.0.2.1")


def test_of_several_that_share_a_socket_the_oldest_is_named_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as shared:
        child = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE, pass_fds=[shared.fileno()])
        try:
            assert [one.pid for one in who_listens(shared.getsockname()[1])] == [os.getpid(), child.pid]
        finally:
            child.communicate(b"\n")


def test_a_child_on_its_way_to_exec_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between fork and exec a child holds all that its parent does; afterwards it has other words and no socket."""
    inodes, seen = ports._socket_inodes, set[int]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        inode = os.fstat(listener.fileno()).st_ino
        child = subprocess.Popen([sys.executable, "-ISc", "input()"], stdin=subprocess.PIPE)

        def at_first(pid: int) -> set[int]:
            if pid == child.pid and pid not in seen:
                seen.add(pid)
                return {inode}
            return inodes(pid)

        monkeypatch.setattr(ports, "_socket_inodes", at_first)
        try:
            assert [one.pid for one in who_listens(listener.getsockname()[1])] == [os.getpid()]
        finally:
            child.communicate(b"\n")
