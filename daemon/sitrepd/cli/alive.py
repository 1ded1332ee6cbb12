"""Whether a process of this machine runs."""

from __future__ import annotations


def lives(pid: int) -> bool:
    """A zombie does not, which may stay for ever: in a container, process 1 often waits for nobody's child."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(") ")[2][:1] not in "ZX"
    except OSError:
        return False
