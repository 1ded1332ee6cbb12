"""Shell commands that agents run: those that start a server, measure, train, profile or change what is installed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from sitrepd.agents.call import Call
from sitrepd.agents.models import OUTPUT_MOST
from sitrepd.agents.payload import clean
from sitrepd.agents.words import kind_of, programs
from sitrepd.facts import Scope, tell_word
from sitrepd.hardware.hosts import named_host

_LONGEST = 100_000


@dataclass(frozen=True)
class Ran:
    """A shell command as a tool ran it; what a client does not tell is None."""

    command: str
    output: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    cwd: str | None = None


def of_tool(given: Mapping[str, Any], answered: Any) -> Ran | None:
    """From a tool's input and what it answered, in whichever form: an object, or the output alone."""
    command = given.get("command")
    if isinstance(command, list):
        command = shlex.join(str(word) for word in command)
    if not isinstance(command, str) or not command.strip() or len(command) > _LONGEST:
        return None
    told = answered if isinstance(answered, Mapping) else {"output": answered}
    parts = (told.get(name) for name in ("stdout", "stderr", "output", "llmContent"))
    output = "\n".join(part.rstrip("\n") for part in parts if isinstance(part, str) and part.strip())
    folder = next((given[name] for name in ("cwd", "workdir", "dir_path") if isinstance(given.get(name), str)), None)
    return Ran(clean(command), clean(output) or None, _exit_code(told), _whole(told.get("duration_ms")), folder)


def _exit_code(told: Mapping[str, Any]) -> int | None:
    names = ("exit_code", "exitCode", "exit", "returnCode", "return_code")
    return next((code for name in names if (code := _whole(told.get(name))) is not None), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31 else None


async def ran(call: Call, one: Ran | None) -> None:
    """Keep a command that matters for the work; `ls` and the like are not kept."""
    if one is None or (kind := kind_of(one.command)) == "other":
        return
    folder = one.cwd or call.place.hint.cwd
    host = call.place.hint.host
    watch = call.runtime.live.get("benchmark_files") if kind == "benchmark" else None
    # A file of that name on this machine is another one.
    here = None if host else folder
    runs = await watch.ran(programs(one.command), here, call.session_id, one.output) if watch is not None else []
    told = {
        "command": one.command,
        "kind": kind,
        "cwd": folder,
        "exit_code": one.exit_code,
        "duration_ms": one.duration_ms,
        "output": one.output[-OUTPUT_MOST:] if one.output else None,
        "results": [f"B{number}" for number in runs],
    }

    def job(db: Session) -> None:
        scope = Scope(call.runtime.registry, f"observed:{call.place.client}", call.session_id)
        row = tell_word(db, scope, "command", told)
        if host is not None:
            row.host_id = named_host(db, scope.registry, host)

    await call.runtime.store.write_async(job)
