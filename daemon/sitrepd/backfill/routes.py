"""HTTP of the backfill: what was read from files elsewhere comes in, part by part."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter
from sqlmodel import Session

from sitrepd.backfill.models import BackfillIn, BackfillOut
from sitrepd.backfill.service import Keeper
from sitrepd.errors import InvalidFact, NoSession
from sitrepd.routing import HintDep, RuntimeDep, api_router, problems
from sitrepd.sessions import current
from sitrepd.storage import ids

router = api_router("backfill")


@router.post("/backfill", name="backfill", responses=problems(NoSession, InvalidFact))
async def backfill(body: BackfillIn, runtime: RuntimeDep, hint: HintDep) -> BackfillOut:
    """Take in what was read from the files of a project; what is known already is brought up to date.

    `sitrep backfill` reads the files and tells them here.
    """

    def job(db: Session) -> tuple[int, BackfillOut]:
        number = current.resolve(db, hint)
        settled = Keeper(db, runtime.registry, number, runtime.host_id).take_in(body)
        return number, BackfillOut(session=ids.public_id("S", number), facts=settled)

    number, told = await runtime.store.write_async(job)
    runtime.activity.touch(number)
    return told


def routers() -> Sequence[APIRouter]:
    return (router,)
