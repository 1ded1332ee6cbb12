"""Listening sockets of this machine: who holds a port, and whether it may be had."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from sitrepd.launches.processes import identify, read_argv
from sitrepd.launches.sockets import Address, listening_sockets


@dataclass(frozen=True, slots=True)
class Listener:
    """A listening socket; pid and argv are None when its process may not be seen. Secrets are not removed from argv."""

    address: str
    port: int
    uid: int
    inode: int
    pid: int | None = None
    argv: tuple[str, ...] | None = None


def listening(port: int, host: str | None = None, net_of: int | None = None) -> list[Listener]:
    """The sockets that listen on a port (of the network namespace of process `net_of`), owners not looked up.

    With a host, only those that answer there.
    """
    return [
        Listener(str(address), port, uid, inode)
        for address, bound, uid, inode in listening_sockets(net_of)
        if bound == port and _answers(address, host)
    ]


def _answers(address: Address, host: str | None) -> bool:
    if host is None or address.is_unspecified:
        return True
    if host == "localhost":
        return address.is_loopback
    try:
        wanted = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return True
    return wanted.is_unspecified or wanted == address


def owns_listener(
    pids: Callable[[], Collection[int]], port: int, host: str | None = None, net_of: int | None = None
) -> bool:
    """Whether one of the processes listens on the port; `pids` is asked only when somebody does."""
    inodes = {listener.inode for listener in listening(port, host, net_of)}
    return bool(inodes) and any(inodes & _socket_inodes(pid) for pid in pids())


def ports_of(pid: int) -> set[int]:
    """The ports that a process itself listens on, in its network namespace; empty where they are not seen."""
    inodes = _socket_inodes(pid)
    return {port for _, port, _, inode in listening_sockets(pid) if inode in inodes} if inodes else set()


def _socket_inodes(pid: int) -> set[int]:
    inodes = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(int(target[8:-1]))
    except OSError:
        return inodes
    return inodes


def who_listens(port: int, host: str | None = None) -> list[Listener]:
    """The sockets that listen on a port, with their processes: one entry for each, the oldest first."""
    found = listening(port, host)
    if not found:
        return []
    owners = {int(name): _socket_inodes(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    result = []
    for one in found:
        pids = _holders(one.inode, [pid for pid, inodes in owners.items() if one.inode in inodes])
        whole = [Listener(one.address, port, one.uid, one.inode, pid, tuple(read_argv(pid))) for pid in pids]
        result += whole or [one]
    return result


def _holders(inode: int, pids: Collection[int]) -> list[int]:
    """The oldest first; of several, without a child that was only on its way from fork to exec."""
    held = [pid for pid in pids if len(pids) == 1 or inode in _socket_inodes(pid)]
    started = {pid: one.start_ticks for pid in held if (one := identify(pid))}
    return sorted(started, key=lambda pid: (started[pid], pid))


def port_free(port: int, host: str | None = None) -> bool:
    """Whether a server could listen there now, as uvicorn binds (SO_REUSEADDR); nothing is left bound.

    Raises OSError when the address itself is the trouble: not of this machine, or a port that needs root.
    """
    if listening(port, host):
        return False
    bare = (host or "0.0.0.0").strip("[]")
    family, kind, proto, _, where = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, kind, proto) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(where)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def port_taken(port: int, host: str | None = None) -> bool:
    """Whether somebody listens there; not where the address itself is the trouble, which waiting does not mend."""
    try:
        return not port_free(port, host)
    except OSError:
        return False
