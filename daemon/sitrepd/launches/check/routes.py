"""HTTP of the checks before a launch."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from sqlmodel import Session

from sitrepd.errors import NoSession
from sitrepd.launches.check.model import Check
from sitrepd.launches.check.run import checks
from sitrepd.launches.models import LaunchCreate
from sitrepd.routing import HintDep, RuntimeDep, TellerDep, api_router
from sitrepd.sessions import current

router = api_router("launches")


class Checked(BaseModel):
    """What was looked at, what speaks against the launch first."""

    checks: list[Check]


@router.post("/launches/check", name="check_launch", response_model=Checked, response_model_exclude_none=True)
async def check(body: LaunchCreate, runtime: RuntimeDep, hint: HintDep, teller: TellerDep) -> Any:
    """Say what speaks against a launch, which is told as to `POST /launches`; nothing is started."""
    with runtime.store.read() as db:
        session_id = session_of(db, hint)
    runtime.activity.touch(session_id)
    return Checked(checks=await checks(runtime, body, session_id, teller.removeprefix("told:")))


def session_of(db: Session, hint: current.Hint) -> int | None:
    """None also where it is not clear: a check needs no session."""
    try:
        return current.resolve(db, hint)
    except NoSession:
        return None
