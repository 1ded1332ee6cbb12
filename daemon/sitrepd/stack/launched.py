"""How a launch was started, as its process shows it, else as it was told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitrepd.stack.interpreter import Interpreter, find_interpreter, is_python, python_at
from sitrepd.stack.mapped import environment_of
from sitrepd.stack.probe import StackReading, probe_interpreter

_ELSEWHERE = "the packages are not known: it runs in a container, or below another root, where they cannot be asked"


@dataclass(frozen=True, slots=True)
class Started:
    """Words, environment and working directory, which are never stored, since the environment holds secrets.

    Of a process also its program's file and, where it sees other files than we do, that it does.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    folder: Path | None = None
    program: str | None = None
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Told:
    """What the store keeps of a launch; `identity` names its main process by pid, start and boot, `server` the one
    below it that serves, where that is another."""

    argv: Sequence[str] | None
    command: str | None
    env: Mapping[str, str] | None
    cwd: str | None
    identity: Mapping[str, Any] | None
    server: Mapping[str, Any] | None = None


def interpreter(told: Told, proc: Path = Path("/proc")) -> Interpreter:
    """Of the first way of starting that names one; what fails becomes the reason why there is none."""
    try:
        ways = list(_ways(told, proc))
        if not ways:
            return Interpreter(None, "the packages are not known: no command was recorded")
        if ways[0].elsewhere:
            return Interpreter(None, _ELSEWHERE)
        found = [interpreter_of(way) for way in ways]
        return next((one for one in found if one.path is not None), found[0])
    except Exception as error:
        return Interpreter(None, f"the packages are not known: {type(error).__name__}: {error}")


def read_stack(told: Told, proc: Path = Path("/proc")) -> StackReading:
    """What it answers."""
    return probe_interpreter(interpreter(told, proc))


def _ways(told: Told, proc: Path) -> Iterator[Started]:
    """What serves, what was started, and what was told, so far as they can be seen."""
    for way in (running(told, proc, told.server), running(told, proc), stored(told)):
        if way is not None:
            yield way


def interpreter_of(way: Started) -> Interpreter:
    """By its words; where they name none, or another than the one that runs, the one that runs."""
    named = find_interpreter(way.argv, way.env, way.cwd)
    runs = way.program
    if runs is None or way.folder is None or not is_python(runs):
        return named
    if named.path is not None and os.path.realpath(named.path) == os.path.realpath(runs):
        return named
    return python_at(environment_of(way.folder, runs), way.argv[1:], way.env, way.cwd)


def running(told: Told, proc: Path = Path("/proc"), identity: Mapping[str, Any] | None = None) -> Started | None:
    """None where the process is gone, its pid is another's now, or it may not be looked at."""
    identity = identity or told.identity or {}
    folder = proc / str(identity.get("pid"))
    try:
        if _start_ticks(folder) != identity.get("start_ticks") or _boot_id(proc) != identity.get("boot_id"):
            return None
        argv = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")]
        env = _pairs((folder / "environ").read_bytes())
        cwd, program = os.readlink(folder / "cwd"), os.readlink(folder / "exe")
        elsewhere = not os.path.samestat((folder / "root").stat(), os.stat("/"))
    except OSError:
        return None
    if "PATH" not in env:
        # A process that sets a title of its own writes over its environment.
        env = {**os.environ, **(told.env or {})}
    return Started(argv, env, cwd, folder, program, elsewhere) if argv != [""] else None


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
