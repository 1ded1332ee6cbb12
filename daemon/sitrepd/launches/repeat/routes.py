"""HTTP of launches that are waited for, repeated, compared and written down."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd import facts
from sitrepd.errors import Conflict, InvalidFact, UnknownId
from sitrepd.launches import start
from sitrepd.launches.check.model import LaunchStarted
from sitrepd.launches.check.run import before_a_launch
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.launches.ports import port_free
from sitrepd.launches.repeat import again, asked, bundle, compare, repro, sides
from sitrepd.launches.service import Launches
from sitrepd.launches.slice import LAUNCH
from sitrepd.launches.wait import check_wanted, wait
from sitrepd.routing import FactId, HintDep, ReadDep, RuntimeDep, TellerDep, api_router, problems
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.shapes import Shape, Text

router = api_router("launches")
_FREE_WITHIN_S = 30.0
_STOP_WITHIN_S = 150.0
_LOOK_S = 0.05


class Waited(BaseModel):
    """How a wait ended: `reached` is what came first of what was waited for; absent where the time was over, or where
    the launch ended before."""

    id: str
    reached: str | None = None
    over: bool = Field(description="Whether the launch has ended or failed, so that nothing else will come.")
    state: str | None = None
    failure: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None


class BundleIn(Shape):
    caller_env: dict[str, Text] = Field(
        default_factory=dict, description="The caller's environment; it is not stored, and serves to find secrets."
    )


class SettingOut(BaseModel):
    name: str
    kind: Literal["asked", "changed", "chosen", "unknown"] = Field(
        description="As asked for; changed by the engine; chosen by it where nothing was asked; not told by the engine."
    )
    asked: Any = None
    effective: Any = None


class SettingsOut(BaseModel):
    """What was asked for, and what the engine made of it; `count` is the number of all effective settings."""

    id: str
    data: list[SettingOut]
    count: int


@router.get(
    "/launches/{fact_id}/wait", name="wait_for_launch", response_model=Waited, response_model_exclude_none=True,
    responses=problems(UnknownId, Conflict, InvalidFact),
)  # fmt: skip
async def wait_for(
    fact_id: FactId,
    runtime: RuntimeDep,
    wanted: Annotated[
        list[str] | None, Query(alias="for", description="A state, a phase, or `ended`; may be repeated.")
    ] = None,
    timeout_s: Annotated[float, Query(ge=0, le=600, description="Seconds to wait at the most.")] = 30,
) -> Waited:
    """Answer once the launch has come to one of the states, or cannot any more; a wait is no activity."""
    for_what = wanted or ["ready"]
    check_wanted(for_what)
    number = _number(runtime, fact_id)
    found = await wait(runtime, number, for_what, timeout_s)
    row = found.row
    return Waited(
        id=LAUNCH.public_id(number), reached=found.reached, over=found.over, state=row.state, failure=row.failure,
        exit_code=row.exit_code, exit_signal=row.exit_signal,
    )  # fmt: skip


@router.get(
    "/launches/{fact_id}/settings", name="get_launch_settings", response_model=SettingsOut,
    response_model_exclude_none=True, responses=problems(UnknownId),
)  # fmt: skip
def settings(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> SettingsOut:
    """The settings that were asked for, and those that the engine changed or chose."""
    side = sides.side(db, runtime.registry, facts.get(db, LAUNCH, fact_id))
    found = asked.settings_of(side.facts.flags, side.settings)
    data = [SettingOut(name=one.name, kind=one.kind, asked=one.asked, effective=one.effective) for one in found]
    return SettingsOut(id=side.id, data=data, count=len(side.settings))


_CREATED: dict[str, Any] = {
    "status_code": 201, "response_model": LaunchStarted, "response_model_exclude_none": True,
    "responses": problems(UnknownId, Conflict, InvalidFact),
}  # fmt: skip


@router.post("/launches/{fact_id}/clone", name="clone_launch", **_CREATED)
async def clone(
    fact_id: FactId, body: again.CloneIn, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response
) -> Any:
    """Start the same as a new launch, with the flags and variables that are given changed."""
    row = _row(runtime, fact_id)
    plan = await asyncio.to_thread(again.again, row, body)
    told = await _start(runtime, row, plan, hint, teller)
    response.headers["Location"] = f"/api/v1/launches/{told.id}"
    return told


@router.post("/launches/{fact_id}/restart", name="restart_launch", **_CREATED)
async def restart(
    fact_id: FactId, body: again.RestartIn, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response
) -> Any:
    """Stop the launch, wait until its processes are gone and its port is free, and start it again as a new one.

    What cannot be started is refused before anything is stopped.
    """
    row = _row(runtime, fact_id)
    plan = await asyncio.to_thread(again.again, row, body)
    checked = plan.body.model_copy(update={"force": True})
    planned = await asyncio.to_thread(start.plan, checked)
    port = plan.body.port or planned.facts.port
    if port != row.port:
        # Its own port will be free; another one must be so already.
        await asyncio.to_thread(start.plan, plan.body)
    await _stopped(runtime, row, body.grace_s)
    if not body.force:
        await _port_freed(port, planned.facts.host, fact_id)
    await _gpus_freed(runtime, row)
    told = await _start(runtime, _row(runtime, fact_id), plan, hint, teller)
    response.headers["Location"] = f"/api/v1/launches/{told.id}"
    return told


async def _stopped(runtime: Runtime, row: Launch, grace_s: float | None) -> None:
    if row.ended_at is not None or row.state not in (*ALIVE, "failed"):
        return
    public = LAUNCH.public_id(row.id)
    if not row.watched:
        raise Conflict(
            f"{public} is not a process that this daemon follows, so it cannot be stopped; clone starts the same anew."
        )
    service: Launches = runtime.live["launch_service"]
    await service.stop(row.id or 0, grace_s)
    if not await service.wait_ended(row.id or 0, _STOP_WITHIN_S):
        raise Conflict(f"{public} has not ended within {_STOP_WITHIN_S:g} s, so nothing was started.")


async def _port_freed(port: int | None, host: str | None, launch: str) -> None:
    """The kernel may hold a port for a moment after its process."""
    deadline = asyncio.get_running_loop().time() + _FREE_WITHIN_S
    while port is not None and not await asyncio.to_thread(port_free, port, host):
        if asyncio.get_running_loop().time() > deadline:
            raise Conflict(
                f"{launch} does not run any more, but somebody else listens on port {port}: nothing was started.",
                port=port,
            )
        await asyncio.sleep(_LOOK_S)


async def _gpus_freed(runtime: Runtime, row: Launch) -> None:
    """A rank that outlives its server in the driver still holds its memory; after a while the start is tried anyway."""
    seen = getattr(runtime.live.get("hardware"), "processes", ())
    pids = [one.process.pid for one in seen if one.launch_id == row.id]
    deadline = asyncio.get_running_loop().time() + _FREE_WITHIN_S
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(_LOOK_S)


async def _start(runtime: Runtime, row: Launch, plan: again.Again, hint: current.Hint, teller: str) -> Any:
    """In the session that is meant, else in that of the earlier launch."""
    kept = await asyncio.to_thread(_keep_log, row, plan)
    with runtime.store.read() as db:
        session_id = current.resolve_or_none(db, hint) or row.session_id
    service: Launches = runtime.live["launch_service"]
    against = await before_a_launch(runtime, plan.body, session_id, teller.removeprefix("told:"))
    try:
        number = await service.start(plan.body, session_id, teller)
    except Exception:
        if kept is not None:
            await asyncio.to_thread(kept[1].rename, kept[0])
        raise
    await runtime.store.write_async(lambda db: _noted(db, number, row.id or 0, plan.notes, kept))
    runtime.activity.touch(session_id)
    with runtime.store.read() as db:
        told = facts.publish_one(db, runtime.registry, LAUNCH, db.get(Launch, number))
    return LaunchStarted.model_validate({**told.model_dump(), "checks": against or None})


def _keep_log(row: Launch, plan: again.Again) -> tuple[Path, Path] | None:
    """Move the log of the earlier launch aside where the new one would empty it: (where it was, where it is)."""
    planned = start.plan(plan.body)
    shell = planned.shell
    told = (shell.stderr_path or shell.log_path) if shell else None
    append = (shell.stderr_append if shell.stderr_path else shell.append) if shell and told else True
    log = Path(told) if told else None
    kept = again.keep_log(row, log, append=append)
    if log is None or kept is None:
        return None
    log.rename(kept)
    return log, kept


def _noted(db: Session, number: int, earlier: int, notes: tuple[str, ...], kept: tuple[Path, Path] | None) -> None:
    row, before = db.get(Launch, number), db.get(Launch, earlier)
    if row is not None and notes:
        row.warnings = [*row.warnings, *notes]
        db.add(row)
    if before is not None and kept is not None:
        before.log_path = str(kept[1])
        db.add(before)


@router.get(
    "/launches/{fact_id}/diff/{other_id}", name="compare_launches", response_model=compare.Comparison,
    responses=problems(UnknownId),
)  # fmt: skip
def diff(fact_id: FactId, other_id: FactId, db: ReadDep, runtime: RuntimeDep) -> compare.Comparison:
    """What differs: flags, environment, stack, effective settings, sizes, durations of phases, outcome."""
    a, b = (sides.side(db, runtime.registry, facts.get(db, LAUNCH, one)) for one in (fact_id, other_id))
    return compare.compare(a, b)


@router.get(
    "/launches/{fact_id}/repro", name="get_launch_script", response_class=Response,
    responses=problems(UnknownId) | {200: {"content": {"text/x-shellscript": {}}}},
)  # fmt: skip
def script(
    fact_id: FactId,
    db: ReadDep,
    runtime: RuntimeDep,
    benchmark: Annotated[str | None, Query(description="A benchmark to name at its end.")] = None,
) -> Response:
    """A bash script that sets up and runs the launch again."""
    side = sides.side(db, runtime.registry, facts.get(db, LAUNCH, fact_id))
    noun = runtime.registry.by_word["benchmark"]
    run = facts.get(db, noun, benchmark) if benchmark else None
    text = repro.script(side, run, noun.public_id(run.id) if run is not None else None)
    return Response(text, media_type="text/x-shellscript")


@router.get(
    "/launches/{fact_id}/bundle", name="get_launch_bundle", response_class=Response,
    responses=problems(UnknownId) | {200: {"content": {"application/gzip": {}}}},
)  # fmt: skip
def archive(fact_id: FactId, runtime: RuntimeDep) -> Response:
    """A tar.gz for a bug report, without secrets: log, versions, topology, command, settings, phases, diagnosis."""
    return _archive(fact_id, runtime, {})


@router.post(
    "/launches/{fact_id}/bundle", name="make_launch_bundle", response_class=Response,
    responses=problems(UnknownId) | {200: {"content": {"application/gzip": {}}}},
)  # fmt: skip
def archive_for(fact_id: FactId, body: BundleIn, runtime: RuntimeDep) -> Response:
    """As by GET, and what is secret in the caller's environment is left out wherever it stands."""
    return _archive(fact_id, runtime, body.caller_env)


def _archive(fact_id: str, runtime: Runtime, caller_env: dict[str, str]) -> Response:
    with runtime.store.read() as db:
        side = sides.side(db, runtime.registry, facts.get(db, LAUNCH, fact_id))
    data = bundle.bundle(side, caller_env)
    name = f'attachment; filename="sitrep-{side.id}.tar.gz"'
    return Response(data, media_type="application/gzip", headers={"Content-Disposition": name})


def _number(runtime: Runtime, fact_id: str) -> int:
    with runtime.store.read() as db:
        return facts.number_of(db, LAUNCH, fact_id)


def _row(runtime: Runtime, fact_id: str) -> Launch:
    with runtime.store.read() as db:
        row: Launch = facts.get(db, LAUNCH, fact_id)
        return row
