"""HTTP of sessions, messages, directives, next steps and artifacts, and the folders that are tied to a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.clock import iso, utc_now
from sitrepd.errors import Conflict
from sitrepd.facts import Scope
from sitrepd.routing import (
    FactId,
    HintDep,
    ReadDep,
    RuntimeDep,
    SessionId,
    TellerDep,
    api_router,
    fact_routes,
    session_id,
)
from sitrepd.sessions import current
from sitrepd.sessions.models import Folder, SessionPublic, SessionRow, SessionUpdate
from sitrepd.sessions.slice import ARTIFACT, DIRECTIVE, MESSAGE, NEXT_STEP, SESSION
from sitrepd.shapes import Shape, Text
from sitrepd.storage import events

router = api_router("sessions")


class FolderIn(Shape):
    path: Text = Field(description="An absolute path; its git common directory is what is tied.", min_length=1)
    file: Text | None = Field(None, description="Where SITREP.md is kept up to date, if anywhere.")
    move: bool = Field(False, description="Tie it anew although it belongs to another session.")


class FolderOut(BaseModel):
    path: str
    session: str
    file: str | None = None


@router.get(
    "/sessions/current", name="get_current_session", response_model=SessionPublic, response_model_exclude_none=True
)
def get_current(db: ReadDep, runtime: RuntimeDep, hint: HintDep) -> Any:
    """The session that the request's headers mean: told, conversation, folder, or the only open one."""
    return facts.publish_one(db, runtime.registry, SESSION, db.get(SessionRow, current.resolve(db, hint)))


@router.post(
    "/sessions/{fact_id}/close", name="close_session", response_model=SessionPublic, response_model_exclude_none=True
)
async def close(fact_id: FactId, runtime: RuntimeDep, teller: TellerDep) -> Any:
    """Close a session; its facts stay, and nothing more is meant by `current`."""

    def job(db: Session) -> Any:
        row = facts.get(db, SESSION, fact_id)
        if row.ended_at is None:
            facts.update(
                db, SESSION, row, SessionUpdate.model_validate({"ended_at": utc_now()}), Scope(runtime.registry, teller)
            )
        return facts.publish_one(db, runtime.registry, SESSION, row)

    return await runtime.store.write_async(job)


@router.post(
    "/sessions/{fact_id}/reopen", name="reopen_session", response_model=SessionPublic, response_model_exclude_none=True
)
async def reopen(fact_id: FactId, runtime: RuntimeDep) -> Any:
    """Open a closed session again."""

    def job(db: Session) -> Any:
        row = facts.get(db, SESSION, fact_id)
        changes = {"ended_at": {"old": iso(row.ended_at) if row.ended_at else None, "new": None}}
        row.ended_at = None
        subject = SESSION.public_id(row.id)
        events.record(db, "session.changed", subject, row.id, fields=["ended_at"], changes=changes)
        return facts.publish_one(db, runtime.registry, SESSION, row)

    return await runtime.store.write_async(job)


@router.get("/folders", name="list_folders")
def list_all_folders(
    db: ReadDep,
    hint: HintDep,
    path: Annotated[str | None, Query(description="Only the tie of this folder, that is, of its repository.")] = None,
) -> list[FolderOut]:
    """Folders that are tied to a session."""
    query = select(Folder).order_by(col(Folder.id))
    if path is not None:
        query = query.where(Folder.path == current.project_of(current.place(hint.host, path) or path)[0])
    return [FolderOut(path=row.path, session=f"S{row.session_id}", file=row.file) for row in db.exec(query).all()]


@router.get("/sessions/{fact_session}/folders", name="list_session_folders")
def list_folders(fact_session: SessionId, db: ReadDep, hint: HintDep) -> list[FolderOut]:
    """The folders that are tied to a session."""
    number = session_id(db, fact_session, hint)
    rows = db.exec(select(Folder).where(col(Folder.session_id) == number)).all()
    return [FolderOut(path=row.path, session=f"S{row.session_id}", file=row.file) for row in rows]


@router.post("/sessions/{fact_session}/folders", name="tie_folder", status_code=201)
async def tie(fact_session: SessionId, body: FolderIn, runtime: RuntimeDep, hint: HintDep) -> FolderOut:
    """Tie a folder to a session, so that whoever works there means it."""
    if hint.host is not None and body.file is not None:
        raise Conflict(
            f"A file of {hint.host} cannot be kept from here. Leave out `--file`; `sitrep resume > FILE` writes one."
        )

    def job(db: Session) -> FolderOut:
        number = session_id(db, fact_session, hint)
        path = current.project_of(current.place(hint.host, body.path) or body.path)[0]
        row = db.exec(select(Folder).where(Folder.path == path)).first()
        other = db.get(SessionRow, row.session_id) if row is not None and row.session_id != number else None
        if other is not None and other.ended_at is None and not body.move:
            raise Conflict(
                f"{path} is tied to S{other.id} ({other.name}). Close that session, or tie the folder anew with "
                "`sitrep init --move`."
            )
        row = row or Folder(path=path, session_id=number)
        if row.session_id != number:
            row.at = utc_now()
        row.session_id = number
        row.file = body.file if body.file is not None else row.file
        db.add(row)
        events.record(db, "folder.tied", f"S{number}", number, path=path)
        return FolderOut(path=path, session=f"S{number}", file=row.file)

    return await runtime.store.write_async(job)


def routers() -> Sequence[APIRouter]:
    """`/sessions/current` must come before `/sessions/{fact_id}`."""
    return (router, *(fact_routes(noun) for noun in (SESSION, MESSAGE, DIRECTIVE, NEXT_STEP, ARTIFACT)))
