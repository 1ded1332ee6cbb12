"""How a launch was started, as its process shows it, else as it was told."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitrepd.stack.interpreter import find_interpreter
from sitrepd.stack.probe import StackReading, probe_stack


@dataclass(frozen=True, slots=True)
class Started:
    """Words, environment and working directory; never stored, since the environment holds secrets."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the store keeps of a launch; `identity` names its main process by pid, start and boot."""

    argv: Sequence[str] | None
    command: str | None
    env: Mapping[str, str] | None
    cwd: str | None
    identity: Mapping[str, Any] | None


def read_stack(told: Told, proc: Path = Path("/proc")) -> StackReading:
    """Asks the interpreter of the first way of starting that names one; what fails becomes the note."""
    try:
        ways = [way for way in (running(told, proc), stored(told)) if way is not None]
        if not ways:
            return StackReading(note="the packages are not known: no command was recorded")
        named = [way for way in ways if find_interpreter(way.argv, way.env, way.cwd).path is not None]
        way = (named or ways)[0]
        return probe_stack(way.argv, way.env, way.cwd)
    except Exception as error:
        return StackReading(note=f"the packages are not known: {type(error).__name__}: {error}")


def running(told: Told, proc: Path = Path("/proc")) -> Started | None:
    """None where the process is gone, its pid is another's now, or it may not be looked at."""
    identity = told.identity or {}
    folder = proc / str(identity.get("pid"))
    try:
        if _start_ticks(folder) != identity.get("start_ticks") or _boot_id(proc) != identity.get("boot_id"):
            return None
        argv = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")]
        env = _pairs((folder / "environ").read_bytes())
        cwd = os.readlink(folder / "cwd")
    except OSError:
        return None
    if "PATH" not in env:
        # A process that sets a title of its own writes over its environment.
        env = {**os.environ, **(told.env or {})}
    return Started(argv, env, cwd) if argv != [""] else None


def stored(told: Told) -> Started | None:
    """As far as it was told; the daemon's environment is the one that it starts from."""
    argv = list(told.argv or (["/bin/sh", "-c", told.command] if told.command else []))
    if not argv:
        return None
    return Started(argv, {**os.environ, **(told.env or {})}, told.cwd or "/")


def _start_ticks(folder: Path) -> int:
    return int((folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[19])


def _boot_id(proc: Path) -> str:
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def _pairs(environ: bytes) -> dict[str, str]:
    pairs = (os.fsdecode(entry).partition("=") for entry in environ.split(b"\0") if b"=" in entry)
    return {name: value for name, _, value in pairs}
