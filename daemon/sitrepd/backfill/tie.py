"""Which start a benchmark was measured on, and which starts failed in the same way."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from sitrepd.backfill.found import Result, Start
from sitrepd.backfill.server_log import quoted
from sitrepd.redact import redact_command

_AFTER = timedelta(seconds=5)
_MOST_TITLE = 200
_COMPARED = ("speculative_algorithm", "speculative_num_steps", "tp_size", "mem_fraction_static")


def tie(results: Iterable[Result], starts: Sequence[Start]) -> None:
    """By the seed that a server draws at each start; else by port, model and time, where one start alone fits."""
    seeds: dict[int, list[Start]] = {}
    for start in starts:
        if start.seed is not None:
            seeds.setdefault(start.seed, []).append(start)
    for result in results:
        drawn = seeds.get(result.server.get("random_seed", -1), [])
        chosen = drawn if len(drawn) == 1 else [start for start in starts if _fits(result, start)]
        if len(chosen) == 1:
            _join(result, chosen[0])


def _join(result: Result, start: Start) -> None:
    result.launch = start.key
    if start.timed and result.ended_at > start.last_at:
        result.fact["at"] = start.last_at
        result.fact["note"] = f"{result.fact['note']} It ran before the last line of its server's log."
    told = result.server.get("launch_command")
    if start.command is None and isinstance(told, str) and result.server.get("random_seed") == start.seed:
        _command_of(start, redact_command(told), result.path)


def _command_of(start: Start, told: str, path: str) -> None:
    """SGLang writes its arguments into results, and the program before them only in some releases."""
    if told.startswith("-"):
        start.warnings.append(f"The program that was started is not recorded; its arguments were ({path}): {told}")
    else:
        start.command = {"command": told}
        start.warnings.append(f"The command is the one that {path} has of its server.")


def _fits(result: Result, start: Start) -> bool:
    """Whether the file was last written while this server was ready, at the same port, with the same settings."""
    server = result.server
    seed = server.get("random_seed")
    if not result.last or start.ready_at is None or (seed is not None and start.seed not in (None, seed)):
        return False
    if server.get("port") is None or server["port"] != start.port or server.get("model_path") != start.model:
        return False
    settings, config = start.settings, result.fact["config"]
    if any(name in settings and name in config and settings[name] != config[name] for name in _COMPARED):
        return False
    return start.ready_at <= result.ended_at <= start.last_at + _AFTER


def failures(starts: Iterable[Start]) -> list[dict[str, Any]]:
    """One finding a cause, however often it came: what it was, what to do, and the starts that show it."""
    by_cause: dict[tuple[str, str], list[Start]] = {}
    for start in starts:
        if start.cause is not None and start.running is None:
            by_cause.setdefault((start.cause["category"] or "unknown", _title(start)), []).append(start)
    return [_finding(category, title, alike) for (category, title), alike in by_cause.items()]


def _title(start: Start) -> str:
    cause = start.cause or {}
    sure = cause.get("category") not in (None, "unknown")
    title = cause["summary"] if sure else start.failure or cause["summary"]
    return title if len(title) <= _MOST_TITLE else title[: _MOST_TITLE - 1] + "…"


def _finding(category: str, title: str, alike: Sequence[Start]) -> dict[str, Any]:
    first = min(alike, key=lambda start: start.last_at)
    cause = first.cause or {}
    detail = " ".join(part for part in (cause["cause"], f"Fix: {cause['fix']}" if cause["fix"] else "") if part)
    return {
        "key": hashlib.sha256(f"{category} {title}".encode()).hexdigest(),
        "path": first.path,
        "fact": {
            "kind": "observation" if category == "unknown" else "root_cause",
            "title": title,
            "detail": detail or None,
            "status": "open",
            "evidence": list(quoted(cause)),
            "at": first.last_at,
        },
        "launches": [start.key for start in sorted(alike, key=lambda start: start.last_at)],
    }
