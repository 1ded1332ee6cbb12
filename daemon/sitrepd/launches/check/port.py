"""Whether the port is free."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd import redact
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.ports import listening, who_listens

_TRIED = 50


def check_port(subject: Subject, _: Look) -> Iterable[Check]:
    port, host = subject.port, subject.facts.host
    if not port:
        return
    holders = who_listens(port, host)
    if not holders:
        yield Check(name="port", level="ok", text=f"Port {port} is free.")
        return
    one = holders[0]
    words = " ".join(redact.redact_argv(list(one.argv or ())))[:160]
    who = f"pid {one.pid} ({words})" if one.pid else "a process of another user"
    free = next((other for other in range(port + 1, port + _TRIED) if not listening(other, host)), None)
    fixes = ([f"stop it (kill {one.pid})"] if one.pid else []) + ([f"write --port {free}"] if free else [])
    fix = " or ".join(fixes)
    yield Check(name="port", level="error", text=f"Port {port} is taken by {who}.", fix=f"{fix[:1].upper()}{fix[1:]}.")
