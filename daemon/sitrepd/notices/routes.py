"""HTTP of notices: the next of what is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from sitrepd.errors import NoSession, UnknownId
from sitrepd.notices import news as waited
from sitrepd.notices.models import Notice
from sitrepd.routing import HintDep, RuntimeDep, SessionId, api_router, problems, session_id

router = api_router("notices")


class NewsOut(BaseModel):
    """What has happened, oldest first; nothing where the time was over."""

    since: int = Field(description="To be given with the next question, so that nothing is missed.")
    data: list[Notice]


@router.get(
    "/sessions/{fact_session}/news", name="wait_for_news", response_model_exclude_none=True,
    responses=problems(UnknownId, NoSession),
)  # fmt: skip
async def news(
    fact_session: SessionId,
    runtime: RuntimeDep,
    hint: HintDep,
    since: Annotated[
        int | None, Query(ge=0, lt=2**63, description="Events after this one; after now if absent.")
    ] = None,
    timeout_s: Annotated[float, Query(ge=0, le=600, description="Seconds to wait at the most.")] = 30,
) -> NewsOut:
    """Answer once something that is waited for happens in a session: what `notify_on` names. It is no activity."""
    with runtime.store.read() as db:
        number = session_id(db, fact_session, hint)
    found = await waited.news(runtime, number, since, timeout_s)
    return NewsOut(since=found.since, data=list(found.notices))


def routers() -> Sequence[APIRouter]:
    return (router,)
