"""Processes that do not exist, for what is pure."""

from __future__ import annotations

from sitrepd.launches.discovery.table import Process
from sitrepd.launches.processes import Stat


def process(
    pid: int, words: str | tuple[str, ...], parent: int = 1, group: int = 0, name: str = "", start: int = 0
) -> Process:
    """One process; `words` are split at spaces."""
    argv = tuple(words.split()) if isinstance(words, str) else words
    name = name or (argv[0].rpartition("/")[2][:15] if argv else "x")
    group = group or pid
    return Process(Stat(pid, name, "S", parent, group, group, 0.0, 1, start or pid * 10, 0), argv)


def table(*processes: Process) -> dict[int, Process]:
    init = process(1, "/sbin/init", 0, name="systemd")
    return {one.pid: one for one in (init, *processes)}
