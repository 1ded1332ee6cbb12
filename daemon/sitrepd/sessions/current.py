"""Which session is meant: told, the client's conversation, the folder, the only open one; never a guess."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, select

from sitrepd.errors import NoSession, UnknownId
from sitrepd.sessions.models import Conversation, Folder, SessionRow
from sitrepd.storage import ids


@dataclass(frozen=True)
class Hint:
    """What a caller says of the session it means, in order of precedence."""

    session: str | None = None
    conversation: str | None = None
    cwd: str | None = None
    host: str | None = None
    """The machine that the folder is on, where that is another one."""

    @property
    def folder(self) -> str | None:
        """The folder, told apart from one of the same path on this machine: `laptop:/home/dev/work`."""
        return place(self.host, self.cwd)


def place(host: str | None, path: str | None) -> str | None:
    """A path as it is kept, after its machine where that is another one."""
    return f"{host}:{path}" if host and path and path.startswith("/") else path


def elsewhere(header: str | None) -> str | None:
    """The name of the caller's machine, as its header says it, where it is not this one."""
    if not header or header == socket.gethostname() or set(header) & set("/: ") or not header.isprintable():
        return None
    return header[:200]


def resolve(db: Session, hint: Hint) -> int:
    """The number of the session that is meant; NoSession lists the open ones where that is not clear."""
    found = _told(db, hint.session) or _by_conversation(db, hint.conversation) or by_folder(db, hint.folder)
    if found is not None:
        return found
    open_ones = open_sessions(db)
    if len(open_ones) == 1 and open_ones[0].id is not None:
        return open_ones[0].id
    raise _unclear(open_ones)


def resolve_or_none(db: Session, hint: Hint) -> int | None:
    """As `resolve`, but None where no session is open at all."""
    try:
        return resolve(db, hint)
    except NoSession:
        if open_sessions(db):
            raise
        return None


def open_sessions(db: Session) -> list[SessionRow]:
    query = select(SessionRow).where(col(SessionRow.ended_at).is_(None)).order_by(col(SessionRow.id))
    return list(db.exec(query).all())


def project_of(cwd: str) -> list[str]:
    """The folders that stand for `cwd`: its git common directory, then itself and its parents, nearest first.

    Of another machine's folder only the names are known.
    """
    host, at, path = cwd.partition(":/")
    if at and "/" not in host:
        elsewhere = Path(f"/{path}")
        return [f"{host}:{folder}" for folder in (elsewhere, *elsewhere.parents)]
    start = Path(cwd)
    folders = [start, *start.parents]
    git = next((found for folder in folders if (found := _git_common(folder))), None)
    return [str(path) for path in ([git] if git else []) + folders]


def tie_of(db: Session, cwd: str | None) -> Folder | None:
    """The tie of the nearest folder that has one, where its session is open."""
    if not cwd:
        return None
    ties = {folder.path: folder for folder in db.exec(select(Folder)).all()}
    found = next((ties[path] for path in project_of(cwd) if path in ties), None) if ties else None
    return found if found is not None and _is_open(db, found.session_id) else None


def by_folder(db: Session, cwd: str | None) -> int | None:
    tie = tie_of(db, cwd)
    return None if tie is None else tie.session_id


def _is_open(db: Session, number: int) -> bool:
    row = db.get(SessionRow, number)
    return row is not None and row.ended_at is None


def _told(db: Session, text: str | None) -> int | None:
    if not text:
        return None
    parsed = ids.parse_id(text)
    if parsed and parsed[0] == "S" and db.get(SessionRow, parsed[1]) is not None:
        return parsed[1]
    named = db.exec(select(SessionRow.id).where(SessionRow.name == text)).all()
    if len(named) == 1:
        return named[0]
    why = f"{len(named)} sessions have that name" if named else "no session has that id or name"
    raise UnknownId(f"Session {text!r}: {why}.", sessions=_briefly(open_sessions(db)))


def _by_conversation(db: Session, text: str | None) -> int | None:
    row = db.get(Conversation, text) if text else None
    return row.session_id if row and _is_open(db, row.session_id) else None


def _git_common(folder: Path) -> Path | None:
    """The git directory that all work trees of a repository share, read without running git."""
    dot = folder / ".git"
    try:
        if dot.is_dir():
            return dot.resolve()
        if not dot.is_file():
            return None
        own = (folder / dot.read_text().removeprefix("gitdir:").strip()).resolve()
        shared = own / "commondir"
        return (own / shared.read_text().strip()).resolve() if shared.is_file() else own
    except OSError:
        return None


def _unclear(open_ones: list[SessionRow]) -> NoSession:
    if not open_ones:
        return NoSession(
            "No session is open. Open one with `sitrep session open NAME`, or POST /api/v1/sessions.", sessions=[]
        )
    names = ", ".join(f"S{row.id} ({row.name})" for row in open_ones)
    return NoSession(
        f"{len(open_ones)} sessions are open: {names}. Say which with --session or SITREP_SESSION "
        "(X-Sitrep-Session over HTTP), or tie this folder to one with `sitrep init`.",
        sessions=_briefly(open_ones),
    )


def _briefly(rows: list[SessionRow]) -> list[dict[str, str | None]]:
    return [{"id": ids.public_id("S", row.id or 0), "name": row.name, "goal": row.goal} for row in rows]
