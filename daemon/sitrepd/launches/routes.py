"""HTTP of launches: start, stop, look at the moment, read the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import AwareDatetime, BaseModel, Field
from sqlmodel import Session

from sitrepd import facts
from sitrepd.errors import Conflict, InvalidFact, UnknownId
from sitrepd.facts import Scope
from sitrepd.launches import samples
from sitrepd.launches.check.model import LaunchStarted
from sitrepd.launches.check.routes import router as check_router
from sitrepd.launches.check.run import before_a_launch
from sitrepd.launches.models import Launch, LaunchCreate, LaunchPublic, LaunchRecord
from sitrepd.launches.service import Launches
from sitrepd.launches.slice import LAUNCH
from sitrepd.redact import redact_part
from sitrepd.routing import (
    FactId,
    HintDep,
    ReadDep,
    RuntimeDep,
    SessionId,
    TellerDep,
    api_router,
    fact_routes,
    problems,
)
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.shapes import Shape

router = api_router("launches")
_MOST_LOG_BYTES = 1 << 20
_AROUND_BYTES = 16 << 10


class Moment(BaseModel):
    """A launch at this moment; without `watched` it is what was told of it."""

    id: str
    state: str | None
    watched: bool
    phase: str | None = Field(None, description="The present phase of its start.")
    title: str | None = None
    progress: float | None = Field(None, description="0 to 1, of the present phase.")
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    elapsed_s: float | None = None
    phase_elapsed_s: float | None = None
    remaining_s: float | None = Field(None, description="Time left; absent where it is not known.")
    remaining_low_s: float | None = None
    remaining_high_s: float | None = None
    remaining_of: str | None = Field(None, description="`start`: until ready; `phase`: of the present phase alone.")
    pid: int | None = None
    log_problem: str | None = None
    failure: str | None = None
    suspect: str | None = Field(None, description="Why the present phase looks stuck, and what to look at.")


class Samples(BaseModel):
    """Figures of a server over time, and what they come to."""

    points: list[samples.Point]
    summary: samples.Summary | None = None


class StopIn(Shape):
    grace_s: float | None = Field(
        None, ge=0, le=3600, description="Seconds before SIGKILL; the engine's own if absent."
    )
    wait_s: float = Field(0, ge=0, le=600, description="Seconds to wait for the end before answering.")


class LogPart(BaseModel):
    """A piece of a log as text, without secrets; `next_offset` continues it."""

    path: str
    text: str
    offset: int
    next_offset: int
    size: int


async def _create(body: LaunchCreate, runtime: Runtime, hint: current.Hint, teller: str) -> Any:
    def session_of(db: Session) -> int | None:
        return current.resolve_or_none(db, hint)

    with runtime.store.read() as db:
        session_id = session_of(db)
    if body.start:
        service: Launches = runtime.live["launch_service"]
        against = await before_a_launch(runtime, body, session_id, teller.removeprefix("told:"))
        number = await service.start(body, session_id, teller)
    else:
        against = []
        number = await _record(body, runtime, session_id, teller)
    runtime.activity.touch(session_id)
    with runtime.store.read() as db:
        told = facts.publish_one(db, runtime.registry, LAUNCH, db.get(Launch, number))
    return LaunchStarted.model_validate({**told.model_dump(), "checks": against or None})


async def _record(body: LaunchCreate, runtime: Runtime, session_id: int | None, teller: str) -> int:
    told = body.model_dump(include=set(LaunchRecord.model_fields), exclude_unset=True)
    record = LaunchRecord.model_validate(told)

    def job(db: Session) -> int:
        return int(facts.tell(db, LAUNCH, record, Scope(runtime.registry, teller, session_id)).id)

    return await runtime.store.write_async(job)


_CREATED: dict[str, Any] = {
    "status_code": 201, "response_model": LaunchStarted, "response_model_exclude_none": True,
    "responses": problems(Conflict, InvalidFact),
}  # fmt: skip


@router.post("/launches", name="create_launch", **_CREATED)
async def create(body: LaunchCreate, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response) -> Any:
    """Start a server as its caller would, in a process session of its own; with `start: false` only record it."""
    told = await _create(body, runtime, hint, teller)
    response.headers["Location"] = f"/api/v1/launches/{told.id}"
    return told


@router.post("/sessions/{fact_session}/launches", name="create_session_launch", **_CREATED)
async def create_in(
    fact_session: SessionId, body: LaunchCreate, runtime: RuntimeDep, hint: HintDep, teller: TellerDep
) -> Any:
    """As `POST /launches`, in the session of the path."""
    return await _create(body, runtime, hint if fact_session == "current" else current.Hint(fact_session), teller)


@router.post(
    "/launches/{fact_id}/stop", name="stop_launch", response_model=LaunchPublic, response_model_exclude_none=True,
    status_code=202, responses=problems(UnknownId, Conflict),
)  # fmt: skip
async def stop(fact_id: FactId, runtime: RuntimeDep, body: StopIn | None = None) -> Any:
    """SIGTERM to the server's main process, then SIGKILL to all that is left of it after the grace time."""
    asked = body or StopIn(grace_s=None, wait_s=0)
    with runtime.store.read() as db:
        number = facts.number_of(db, LAUNCH, fact_id)
    service: Launches = runtime.live["launch_service"]
    await service.stop(number, asked.grace_s)
    if asked.wait_s:
        await service.wait_ended(number, asked.wait_s)
    with runtime.store.read() as db:
        return facts.publish_one(db, runtime.registry, LAUNCH, db.get(Launch, number))


@router.get("/launches/{fact_id}/live", name="get_live_launch", response_model=Moment, response_model_exclude_none=True)
def live(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Moment:
    """State, phase, progress and time left at this moment."""
    row: Launch = facts.get(db, LAUNCH, fact_id)
    moment = runtime.live.get("launches", {}).get(row.id)
    shared = {"id": LAUNCH.public_id(row.id), "watched": row.watched, "failure": row.failure}
    if moment is None:
        return Moment(**shared, state=row.state)
    return Moment(**shared, **{**dataclasses.asdict(moment), "state": row.state or moment.state})


@router.get(
    "/launches/{fact_id}/samples", name="get_launch_samples", response_model=Samples,
    response_model_exclude_none=True, responses=problems(UnknownId),
)  # fmt: skip
def read_samples(
    fact_id: FactId,
    db: ReadDep,
    since: Annotated[AwareDatetime | None, Query(description="Leave out what is older.")] = None,
    points: Annotated[int, Query(ge=1, le=5000, description="At most so many, means over equal times.")] = 600,
) -> Samples:
    """Throughput, accept length, queue and token usage over time, from the server's batch lines."""
    number = facts.number_of(db, LAUNCH, fact_id)
    told = samples.series(db, number, since, points)
    return Samples(points=told, summary=samples.summary(db, number, since))


def _log_file(row: Launch) -> FilePath:
    """Of a server that was found, by its descriptor as long as it runs: the name may mean nothing from here."""
    named = FilePath(row.cwd or "/") / (row.log_path or "")
    logs = (row.process or {}).get("logs") or [{}]
    held = FilePath(logs[0].get("path") or named)
    return held if held != named and held.is_file() else named


@router.get("/launches/{fact_id}/log", name="get_launch_log")
def read_log(
    fact_id: FactId,
    db: ReadDep,
    offset: Annotated[int | None, Query(description="Byte to start at; negative counts from the end.")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST_LOG_BYTES, description="Bytes.")] = 65536,
) -> LogPart:
    """A piece of the server's log, from the end unless an offset is given."""
    row: Launch = facts.get(db, LAUNCH, fact_id)
    if not row.log_path:
        raise UnknownId(f"No log is known of {fact_id}. {row.log_problem or ''}".rstrip())
    path = _log_file(row)
    if path.exists() and not path.is_file():  # a pipe would keep whoever opens it waiting
        raise Conflict(f"The log {path} is no file that can be read again.")
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            at = max(0, size - limit) if offset is None else offset if offset >= 0 else max(0, size + offset)
            at = min(at, size)
            around = max(0, at - _AROUND_BYTES)
            file.seek(around)
            data = file.read(at - around + limit + _AROUND_BYTES)
    except OSError as error:
        raise Conflict(f"The log {path} cannot be read: {error.strerror}.") from error
    end = min(len(data), at - around + limit)
    text = redact_part(data, at - around, end)
    return LogPart(path=str(path), text=text, offset=at, next_offset=max(at, around + end), size=size)


def routers() -> Sequence[APIRouter]:
    from sitrepd.launches.discovery.routes import router as discovered
    from sitrepd.launches.repeat.routes import router as repeated

    return router, check_router, discovered, repeated, fact_routes(LAUNCH, create=False)
