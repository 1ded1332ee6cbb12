"""What else is on this machine, for a checkpoint: leftovers of earlier starts, and servers that nobody follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sitrepd.launches.discovery.view import OrphanOut, ServerOut, ServersOut

_GIB = 1 << 30


def beside(found: ServersOut | None) -> list[dict[str, Any]]:
    """Items of the section `now`; they change from moment to moment, and are no facts of a session."""
    if found is None:
        return []
    shared = {"volatile": True, "pinned": False}
    left = [
        {"kind": "orphan", "ids": [one.launch] if one.launch else [], "text": _left(one), "priority": 12, "order": 30}
        for one in found.orphans
    ]
    others = [
        {"kind": "server", "ids": [], "text": _other(one), "priority": 29, "order": 61}
        for one in found.servers
        if one.launch is None
    ]
    return [item | shared for item in (*left, *others)]


def _left(one: OrphanOut) -> str:
    whose = f"{one.launch}, which has ended," if one.launch else "a server that is gone"
    held = [f"{one.gpu_memory_bytes / _GIB:.1f} GiB of GPU memory"] if one.gpu_memory_bytes else []
    held += [f"port {port}" for port in one.ports]
    what = f", and hold {' and '.join(held)}" if held else ""
    return f"Processes of {whose} still run ({', '.join(one.names)}){what}; this ends them: {one.command}"


def _other(one: ServerOut) -> str:
    """One line, without its words: they may be another user's."""
    what = "An engine inside another program" if one.embedded else "A server that is not followed"
    held = f", {one.gpu_memory_bytes / _GIB:.1f} GiB of GPU memory" if one.gpu_memory_bytes else ""
    port = f", port {one.port}" if one.port else ""
    return f"{what} runs on this machine: {one.kind}, process {one.pid} of {one.user or 'an unknown user'}{port}{held}"
