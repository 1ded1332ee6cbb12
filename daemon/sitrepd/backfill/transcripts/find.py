"""The conversations that lie below files and folders, each message once, and what of them is told."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from sitrepd.agents.models import OUTPUT_MOST
from sitrepd.agents.words import kind_of
from sitrepd.backfill.found import Passed, Result
from sitrepd.backfill.results import measured
from sitrepd.backfill.transcripts import claude_code, opencode
from sitrepd.backfill.transcripts.conversation import Conversation, Done, Said
from sitrepd.redact import redact_text

MOST_TEXT = 200_000
_MOST_JSON_BYTES = 256 << 20
_LOOKED_AT = 20
_STORAGE = ("message", "part")


@dataclass
class Told:
    """What was read, in the order of time; a command comes with the keys of the runs that it printed."""

    conversations: list[Conversation] = field(default_factory=list)
    said: list[tuple[Conversation, Said]] = field(default_factory=list)
    done: list[tuple[Conversation, Done, list[str]]] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    not_understood: list[Passed] = field(default_factory=list)
    files: int = 0
    other_commands: int = 0


def find(paths: Sequence[str]) -> Told:
    """Read what lies there; nothing that is in a file makes this raise."""
    told = Told()
    for path in paths:
        for conversation in _of_path(os.path.abspath(path), told, asked=True):
            if conversation.said or conversation.done:
                told.conversations.append(conversation)
    _settle(told)
    return told


def _of_path(path: str, told: Told, asked: bool = False) -> Iterator[Conversation]:
    if os.path.isdir(path):
        yield from _of_folder(Path(path), told)
        return
    try:
        yield from _of_file(path, told, asked)
    except (OSError, ValueError, KeyError, TypeError, sqlite3.Error) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        told.not_understood.append(Passed(path, f"cannot be read: {redact_text(why)}"))


def _of_folder(folder: Path, told: Told) -> Iterator[Conversation]:
    for place, folders, files in os.walk(folder):
        folders.sort()
        if all((Path(place) / name).is_dir() for name in _STORAGE):
            told.files += 1
            yield from opencode.of_folder(Path(place))
            folders[:] = [name for name in folders if name not in (*_STORAGE, "session", "session_diff", "todo")]
        for name in sorted(files):
            if name.endswith((".jsonl", ".json", ".db")):
                yield from _of_path(os.path.join(place, name), told)


def _of_file(path: str, told: Told, asked: bool) -> Iterator[Conversation]:
    with open(path, "rb") as file:
        head = file.read(64)
        if head.startswith(b"SQLite format 3\0"):
            told.files += 1
            found = list(opencode.of_database(path))
            if not found and asked:
                told.not_understood.append(Passed(path, "a database without conversations of opencode"))
            yield from found
            return
        file.seek(0)
        first = [_loads(line) for line in islice(file, _LOOKED_AT)]
        file.seek(0)
        if any(claude_code.is_line(one) for one in first):
            told.files += 1
            conversations, broken = claude_code.read(path, file)
            if broken:
                told.not_understood.append(Passed(path, f"{broken} of its lines are no JSON; the others were read"))
            yield from conversations
            return
        document = _loads(file.read(_MOST_JSON_BYTES)) if head.lstrip()[:1] == b"{" else None
    exported = opencode.of_export(path, document) if isinstance(document, dict) else None
    if exported is not None:
        told.files += 1
        yield exported
    elif asked:
        told.not_understood.append(Passed(path, "no conversation of Claude Code or opencode"))


def _settle(told: Told) -> None:
    """A message that stands in several files counts once; of the commands those stay that matter for the work."""
    seen: set[str] = set()
    runs: set[str] = set()
    for conversation in told.conversations:
        for said in conversation.said:
            if said.key not in seen:
                seen.add(said.key)
                told.said.append((conversation, said))
        for done in conversation.done:
            if done.key in seen:
                continue
            seen.add(done.key)
            if kind_of(done.ran.command) == "other":
                told.other_commands += 1
                continue
            results = measured(conversation.path, done.ran.output or "", done.ended_at)
            told.done.append((conversation, done, [one.key for one in results]))
            told.results += [one for one in results if one.key not in runs]
            runs |= {one.key for one in results}
    told.said.sort(key=lambda one: (one[1].at, one[1].key))
    told.done.sort(key=lambda one: (one[1].at, one[1].key))


def message(conversation: Conversation, said: Said) -> dict[str, Any]:
    """A message as the daemon takes it; a very long one says where all of it is."""
    text = said.text
    if len(text) > MOST_TEXT:
        left = f"[… {len(text) - MOST_TEXT} more characters; all {len(text)} are in {conversation.path}]"
        text = f"{text[:MOST_TEXT]}\n{left}"
    fact = {"number": 0, "role": "user", "text": text, "synthetic": said.synthetic, "at": said.at}
    return {"key": said.key, "path": conversation.path, "fact": fact}


def command(conversation: Conversation, done: Done, results: Sequence[str]) -> dict[str, Any]:
    ran = done.ran
    fact = {
        "command": ran.command, "kind": kind_of(ran.command), "cwd": ran.cwd, "exit_code": ran.exit_code,
        "duration_ms": ran.duration_ms, "output": ran.output[-OUTPUT_MOST:] if ran.output else None, "at": done.at,
    }  # fmt: skip
    kept = {name: value for name, value in fact.items() if value is not None}
    return {"key": done.key, "path": conversation.path, "fact": kept, "results": list(results)}


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
