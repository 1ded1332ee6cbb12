"""A redacted archive of a launch, fit for a bug report: what ran where, how it went, and why it failed."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sitrepd import redact
from sitrepd.clock import iso, utc_now
from sitrepd.launches import autopsy
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.repeat import repro
from sitrepd.launches.repeat.asked import settings_of
from sitrepd.launches.repeat.compare import durations, shown
from sitrepd.launches.repeat.excerpt import excerpt
from sitrepd.launches.repeat.sides import Side
from sitrepd.reporting import command_line

_SHORTEST_SECRET = 6
_HOST_FIELDS = ("name", "os", "cpu", "cpu_count", "memory_bytes", "gpus", "interconnect", "topology", "numa", "note")
_STACK_FIELDS = ("python", "cuda", "driver", "os", "packages", "git", "note")


def bundle(side: Side, caller_env: Mapping[str, str] | None = None) -> bytes:
    """The archive, gzip over tar; it reads the log, so it may take seconds.

    The values of secrets in `caller_env` are left out wherever they stand, as those of the daemon and the server are.
    """
    told = _diagnosis(side)
    files = dict(_files(side, told))
    secrets = known_secrets(side, caller_env or {})
    folder = f"sitrep-{side.id}"
    clean = {name: scrub(text, secrets) for name, text in files.items()}
    return _packed(folder, clean)


def _files(side: Side, told: Diagnosis | None) -> Iterator[tuple[str, str]]:
    log = _log(side, told)
    yield "README.md", _readme(side, told, log is not None)
    yield "repro.sh", repro.script(side)
    yield "launch.json", _json(_launch(side))
    if side.settings:
        yield "settings.json", _json(side.settings)
    if side.stack is not None:
        yield "stack.json", _json({name: getattr(side.stack, name) for name in _STACK_FIELDS})
        for number, diff in enumerate(side.stack.diffs or (), 1):
            if diff.get("text"):
                yield f"tree-{number}.diff", diff["text"]
    if side.host is not None:
        yield "host.json", _json({name: getattr(side.host, name) for name in _HOST_FIELDS})
    if told is not None:
        yield "diagnosis.json", _json(told.to_json())
    if log is not None:
        yield "log.txt", log


def _diagnosis(side: Side) -> Diagnosis | None:
    """Anew, since rules learn; None where there is no log that can be read."""
    return autopsy.examine(side.row, autopsy.Beside(autopsy.exit_of(side.row), side.facts))


def _log(side: Side, told: Diagnosis | None) -> str | None:
    if not side.row.log_path:
        return None
    path = Path(side.row.cwd or "/") / side.row.log_path
    matter = [one.line for one in told.evidence if one.line] if told else []
    begin = int((side.row.process or {}).get("log_begin") or 0)
    try:
        return excerpt(path, begin, matter)
    except OSError:
        return None


def _launch(side: Side) -> dict[str, Any]:
    row = side.row
    names = (
        "name", "engine", "command", "argv", "env", "cwd", "port", "model", "draft_model", "state", "started_at",
        "ready_at", "ended_at", "exit_code", "exit_signal", "failure", "suspect", "warnings", "throughput",
        "log_path", "provenance", "imported_from",
    )  # fmt: skip
    told = {"id": side.id} | {name: getattr(row, name) for name in names}
    told |= {"phases_s": durations(side), "phases": side.phases, "sizes": side.sizes}
    if side.around is not None:
        told["environment"] = {
            name: value for name, value in side.around.env.items() if repro.matters(name) or name in side.assigned
        }
    return {name: value for name, value in told.items() if value not in (None, {}, [])}


def _readme(side: Side, told: Diagnosis | None, has_log: bool) -> str:
    row = side.row
    parts = [
        f"# {side.id}{f': {row.name}' if row.name else ''}",
        " ".join(_state(side)),
        *_why(told, row.failure),
        "## Command",
        _fence(row.command or command_line(None, row.argv, row.env) or "not recorded"),
        "## Where",
        *_where(side),
        *_started(side),
        *_changed(side),
        "## In this archive",
        _contents(side, told, has_log),
        "Secrets were replaced by `${NAME}`. Written by Sitrep " + f"on {iso(utc_now())}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _state(side: Side) -> Iterator[str]:
    row = side.row
    yield f"{row.engine or 'A server'} {row.state or 'in a state that was not recorded'}"
    if row.exit_code is not None:
        yield f"with exit status {row.exit_code}"
    if row.exit_signal is not None:
        yield f"by signal {row.exit_signal}"
    yield f"(started {iso(row.started_at or row.at)})."


def _why(told: Diagnosis | None, failure: str | None) -> Iterator[str]:
    if told is None or told.category is None:
        if failure:
            yield "## Why it failed"
            yield failure
        return
    yield "## Why it failed"
    yield told.summary
    yield f"Category `{told.category}`, phase {told.phase or 'not known'}.{f' {told.cause}' if told.cause else ''}"
    if told.evidence:
        yield _fence("\n".join(f"{one.line:>6}  {one.text}" if one.line else one.text for one in told.evidence))


def _where(side: Side) -> Iterator[str]:
    lines = [f"- {line}" for line in (*_machine(side.host), *_versions(side.stack))]
    yield "\n".join(lines) or "Host and stack were not recorded."


def _machine(host: Any) -> Iterator[str]:
    if host is None:
        return
    gpus = [str(gpu.get("name")) for gpu in host.gpus or ()]
    yield from (f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
    yield from (f"{name}: {shown(told)}" for name in ("interconnect", "cpu", "os") if (told := getattr(host, name)))


def _versions(stack: Any) -> Iterator[str]:
    if stack is None:
        return
    for name in ("python", "cuda", "driver"):
        if getattr(stack, name):
            yield f"{name} {getattr(stack, name)}"
    packages = stack.packages or {}
    yield from (f"{name} {packages[name]}" for name in sorted(packages, key=repro.importance)[:12])
    yield from (f"changed beyond its commit: {diff['path']}" for diff in stack.diffs or ())


def _started(side: Side) -> Iterator[str]:
    found = durations(side)
    if found:
        yield "## How long its phases took"
        yield "\n".join(f"- {name}: {seconds} s" for name, seconds in found.items())


def _changed(side: Side) -> Iterator[str]:
    found = [one for one in settings_of(side.facts.flags, side.settings) if one.kind in ("changed", "chosen")]
    if found:
        yield "## What the engine made of the flags"
        yield "\n".join(
            f"- {one.name}: {shown(one.effective)}" + (f" (asked: {shown(one.asked)})" if one.kind == "changed" else "")
            for one in found
        )


def _contents(side: Side, told: Diagnosis | None, has_log: bool) -> str:
    about = {
        "repro.sh": "sets up and runs it again",
        "launch.json": "everything recorded of it",
        "settings.json": "the settings as the engine resolved them" if side.settings else "",
        "stack.json": "versions" if side.stack is not None else "",
        "tree-N.diff": "what a working tree has beyond its commit"
        if side.stack is not None and any(diff.get("text") for diff in side.stack.diffs or ())
        else "",
        "host.json": "the machine and its topology" if side.host is not None else "",
        "diagnosis.json": "why it failed, with the lines that this rests on" if told is not None else "",
        "log.txt": "head and tail of the log, and what stands around those lines" if has_log else "",
    }
    return "\n".join(f"- `{name}`: {text}" for name, text in about.items() if text)


def _fence(text: str) -> str:
    ticks = max((len(found) for found in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, ticks + 1)
    return f"{fence}\n{text}\n{fence}"


def _json(value: Any) -> str:
    return json.dumps(redact.redact_json(value), indent=2, ensure_ascii=False, default=_plain) + "\n"


def _plain(value: Any) -> Any:
    return iso(value) if hasattr(value, "astimezone") else str(value)


def known_secrets(side: Side, caller_env: Mapping[str, str]) -> dict[str, str]:
    """Values that must not appear, by name: of the living server's environment, of our own and of who asks."""
    found = {**os.environ, **caller_env}
    pid = side.row.pid
    if pid and side.row.ended_at is None and side.row.watched:
        found |= _environment_of(pid)
    return {
        name: value
        for name, value in found.items()
        if len(value) >= _SHORTEST_SECRET and redact.redact_env({name: value})[name] != value
    }


def _environment_of(pid: int) -> dict[str, str]:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    told = (os.fsdecode(pair).partition("=") for pair in pairs if b"=" in pair)
    return {name: value for name, _, value in told}


def scrub(text: str, secrets: Mapping[str, str]) -> str:
    """Text without what looks like a secret, and without the values that are known to be one, wherever they stand."""
    for name, value in sorted(secrets.items(), key=lambda one: -len(one[1])):
        text = text.replace(value, f"${{{name}}}")
    return redact.redact_text(text)


def _packed(folder: str, files: Mapping[str, str]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, text in files.items():
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime = len(data), int(utc_now().timestamp())
            entry.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(plain.getvalue(), mtime=0)
