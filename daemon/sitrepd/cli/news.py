"""`sitrep wait` without a launch: until the next event of the session that somebody waits for."""

from __future__ import annotations

import time
from typing import Any, get_args

import typer

from sitrepd.cli import output
from sitrepd.cli.client import Answer, Unreachable
from sitrepd.cli.verbs import NOT_READY, TIME_OVER, Cli
from sitrepd.settings import Notable

_PIECE_S = 25.0
_PATIENCE_S = 20.0
_PAUSE_S = 0.3
_BAD = frozenset({"failed", "lost", "gpu_lost"})


def wait(cli: Cli, kinds: list[str], timeout_s: float, told: str) -> None:
    """Print what happened; the exit status says whether it was bad, or that the time was over."""
    if unknown := [kind for kind in kinds if kind not in get_args(Notable)]:
        raise typer.BadParameter(f"{unknown[0]!r} is no kind of event: {', '.join(get_args(Notable))}.")
    answer = _waited(cli, kinds, timeout_s)
    found = _wanted(answer, kinds)
    cli.show(answer, lambda _: output.say(_text(found, told)))
    raise typer.Exit(TIME_OVER if not found else NOT_READY if any(one["kind"] in _BAD for one in found) else 0)


def _waited(cli: Cli, kinds: list[str], timeout_s: float) -> Answer:
    """Asked again and again from the event up to which it was answered, so that a restart loses nothing."""
    until = time.monotonic() + timeout_s
    since: int | None = None
    answered = time.monotonic()
    while True:
        piece_s = max(0.0, min(until - time.monotonic(), _PIECE_S)) if since is not None else 0.0
        query = {"timeout_s": round(piece_s, 3)} | ({} if since is None else {"since": since})
        try:
            answer = cli.client.request("GET", "/sessions/current/news", query)
        except Unreachable:
            if time.monotonic() - answered > _PATIENCE_S:
                raise
            time.sleep(_PAUSE_S)
            continue
        now = time.monotonic()
        if _wanted(answer, kinds) or now >= until:
            return answer
        if since is not None and now - answered < min(piece_s, _PAUSE_S):
            time.sleep(_PAUSE_S)  # a daemon that ends answers early
        since, answered = answer.data["since"], now


def _wanted(answer: Answer, kinds: list[str]) -> list[dict[str, Any]]:
    return [one for one in answer.data["data"] if not kinds or one["kind"] in kinds]


def _text(found: list[dict[str, Any]], told: str) -> str:
    if not found:
        return f"Nothing that is waited for has happened within {told}."
    return "\n".join(one["title"] if one["title"] == one["text"] else f"{one['title']}. {one['text']}" for one in found)
