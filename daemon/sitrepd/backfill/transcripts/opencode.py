"""opencode's conversations: its database, the JSON files of earlier releases, and what `opencode export` prints."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sitrepd.agents.commands import of_tool
from sitrepd.agents.payload import clean
from sitrepd.agents.prompts import prompt_of
from sitrepd.backfill.found import key_of
from sitrepd.backfill.transcripts.conversation import Conversation, Done, Said, instant

CLIENT = "opencode"
_OURS = "Sitrep: "
_TABLES = {"session", "message", "part"}
Message = tuple[Mapping[str, Any], Sequence[Mapping[str, Any]]]


def of_database(path: str) -> Iterator[Conversation]:
    """The conversations of `opencode.db`, which is only read; sqlite3.Error where it is none."""
    with closing(_opened(path)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables >= _TABLES:
            return
        sessions = db.execute("SELECT id, directory, parent_id FROM session ORDER BY time_created, id").fetchall()
        for name, directory, parent in sessions:
            messages = []
            rows = db.execute("SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (name,))
            for message, data in rows.fetchall():
                parts = db.execute("SELECT id, data FROM part WHERE message_id = ? ORDER BY id", (message,))
                told = [{"id": part, **_object(written)} for part, written in parts]
                messages.append(({"id": message, **_object(data)}, told))
            yield conversation(path, {"id": name, "directory": directory, "parentID": parent}, messages)


def of_folder(folder: Path) -> Iterator[Conversation]:
    """The conversations of a folder `storage`, one file a message and one a part."""
    about = {path.stem: _file(path) for path in sorted((folder / "session").rglob("*.json"))}
    for place in sorted((folder / "message").iterdir()):
        messages: list[Message] = []
        for path in sorted(place.glob("*.json")):
            parts = [_file(one) for one in sorted((folder / "part" / path.stem).glob("*.json"))]
            messages.append(({"id": path.stem, **_file(path)}, parts))
        yield conversation(str(place), {**about.get(place.name, {}), "id": place.name}, messages)


def of_export(path: str, told: Mapping[str, Any]) -> Conversation | None:
    """The conversation that `opencode export` printed; None where it is something else."""
    info, messages = told.get("info"), told.get("messages")
    if not (isinstance(info, dict) and isinstance(info.get("id"), str) and isinstance(messages, list)):
        return None
    pairs = [
        (one["info"], [part for part in one.get("parts") or () if isinstance(part, dict)])
        for one in messages
        if isinstance(one, dict) and isinstance(one.get("info"), dict)
    ]
    return conversation(path, info, pairs)


def conversation(path: str, session: Mapping[str, Any], messages: Sequence[Message]) -> Conversation:
    folder = session.get("directory")
    found = Conversation(CLIENT, str(session["id"]), path, folder if isinstance(folder, str) else None)
    for info, parts in messages:
        if info.get("role") == "user" and not session.get("parentID"):
            _say(found, info, parts)
        elif info.get("role") == "assistant":
            _commands(found, info, parts)
    return found


def _say(found: Conversation, info: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    """As the plug-in tells it: what the client has written beside the user's own words is left out."""
    at = instant(_mapping(info.get("time")).get("created"))
    written = [part for part in parts if part.get("type") == "text" and isinstance(part.get("text"), str)]
    if at is None or (parts and not written):
        return
    own = [part for part in written if not part.get("synthetic")]
    text = "\n".join(clean(part["text"]) for part in own or written)
    prompt = prompt_of(text, (not own and bool(written)) or text.startswith(_OURS))
    found.said.append(
        Said(key_of(CLIENT, "message", info.get("id")), at, prompt.text, prompt.kind == "synthetic")
    )  # fmt: skip


def _commands(found: Conversation, info: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> None:
    for part in parts:
        state = _mapping(part.get("state"))
        if (
            part.get("type") != "tool"
            or part.get("tool") != "bash"
            or state.get("status") not in ("completed", "error")
        ):
            continue
        time = _mapping(state.get("time"))
        begun, ended = instant(time.get("start")), instant(time.get("end"))
        metadata = _mapping(state.get("metadata"))
        printed = state.get("output") if isinstance(state.get("output"), str) else metadata.get("output")
        ran = of_tool(_mapping(state.get("input")), {"exit": metadata.get("exit"), "output": printed})
        if ran is None or begun is None:
            continue
        took = int((ended - begun).total_seconds() * 1000) if ended is not None and ended >= begun else None
        folder = ran.cwd or _mapping(info.get("path")).get("cwd") or found.folder
        kept = replace(ran, duration_ms=took, cwd=folder if isinstance(folder, str) else None)
        name = part.get("callID") or part.get("id")
        found.done.append(Done(key_of(CLIENT, "command", found.id, name), begun, kept, ended or begun))


def _opened(path: str) -> sqlite3.Connection:
    """Also where the folder cannot be written, which the database's journal would want."""
    address = f"file:{quote(path)}?mode=ro"
    db = sqlite3.connect(address, uri=True)
    try:
        db.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        db.close()
        db = sqlite3.connect(f"{address}&immutable=1", uri=True)
    return db


def _file(path: Path) -> dict[str, Any]:
    try:
        return _object(path.read_bytes())
    except OSError:
        return {}


def _object(data: Any) -> dict[str, Any]:
    try:
        told = json.loads(data)
    except (TypeError, ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
