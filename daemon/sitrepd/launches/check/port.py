"""Whether the port is free, and whether it may be had at that address."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from sitrepd import redact
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.ports import listening, port_free, who_listens

_TRIED = 50


def check_port(subject: Subject, _: Look) -> Iterable[Check]:
    port, host = subject.port, subject.facts.host
    if not port:
        return
    holders = who_listens(port, host)
    if not holders:
        yield _bound(port, host)
        return
    one = holders[0]
    words = " ".join(redact.redact_argv(list(one.argv or ())))[:160]
    who = f"pid {one.pid} ({words})" if one.pid else "a process of another user"
    free = next((other for other in range(port + 1, port + _TRIED) if not listening(other, host)), None)
    fixes = ([f"stop it (kill {one.pid})"] if one.pid else []) + ([f"write --port {free}"] if free else [])
    fix = " or ".join(fixes)
    yield Check(name="port", level="error", text=f"Port {port} is taken by {who}.", fix=f"{fix[:1].upper()}{fix[1:]}.")


def _bound(port: int, host: str | None) -> Check:
    """What a server would be told that listens there: a wrong address is noticed by SGLang's ranks after minutes."""
    try:
        port_free(port, host)
    except socket.gaierror:
        return Check(
            name="port",
            level="error",
            text=f"The host {host} has no address.",
            fix="Write --host 127.0.0.1, or --host 0.0.0.0 for all networks.",
        )
    except OSError as error:
        return _refused(port, host, error)
    return Check(name="port", level="ok", text=f"Port {port} is free.")


def _refused(port: int, host: str | None, error: OSError) -> Check:
    if error.errno == errno.EADDRNOTAVAIL:
        text, fix = (
            f"This machine has no address {host}.",
            "Write --host 127.0.0.1, or --host 0.0.0.0 for all networks.",
        )
    elif error.errno == errno.EACCES:
        text, fix = f"This user may not listen on port {port}.", "Write a --port above 1023."
    else:
        text, fix = f"Nothing can listen on port {port} of {host or 'this machine'}: {error.strerror}.", None
    return Check(name="port", level="error", text=text, fix=fix)
