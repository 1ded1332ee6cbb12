"""HTTP of launches that are waited for, repeated, compared and written down."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import Query, Response
from pydantic import BaseModel, Field

from sitrepd import facts
from sitrepd.errors import Conflict, InvalidFact, UnknownId
from sitrepd.launches.check.model import LaunchStarted
from sitrepd.launches.models import Launch
from sitrepd.launches.repeat import again, anew, asked, bundle, compare, repro, sides
from sitrepd.launches.repeat import restart as restarting
from sitrepd.launches.slice import LAUNCH
from sitrepd.launches.wait import check_wanted, wait
from sitrepd.routing import FactId, HintDep, ReadDep, RuntimeDep, TellerDep, api_router, problems
from sitrepd.runtime import Runtime
from sitrepd.sessions import current
from sitrepd.shapes import Shape, Text

router = api_router("launches")


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
    started = await anew.start(runtime, row, plan, _session(runtime, hint, row), teller)
    return _created(runtime, started, response)


@router.post("/launches/{fact_id}/restart", name="restart_launch", **_CREATED)
async def restart(
    fact_id: FactId, body: again.RestartIn, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response
) -> Any:
    """Stop the launch, wait until its processes are gone and its port is free, and start it again as a new one.

    What cannot be started is refused before anything is stopped. The next daemon goes on with it, should this one die.
    """
    row = _row(runtime, fact_id)
    started = await restarting.restart(runtime, row, body, _session(runtime, hint, row), teller)
    return _created(runtime, started, response)


def _session(runtime: Runtime, hint: current.Hint, row: Launch) -> int | None:
    """The session that is meant, else that of the earlier launch."""
    with runtime.store.read() as db:
        return current.resolve_or_none(db, hint) or row.session_id


def _created(runtime: Runtime, started: anew.Started, response: Response) -> LaunchStarted:
    with runtime.store.read() as db:
        told = facts.publish_one(db, runtime.registry, LAUNCH, db.get(Launch, started.number))
    response.headers["Location"] = f"/api/v1/launches/{told.id}"
    return LaunchStarted.model_validate({**told.model_dump(), "checks": started.against or None})


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
