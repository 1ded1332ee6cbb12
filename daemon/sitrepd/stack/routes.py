"""HTTP of stacks: what a launch ran on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from sqlmodel import col, select

from sitrepd import facts
from sitrepd.errors import UnknownId
from sitrepd.routing import FactId, ReadDep, RuntimeDep, api_router, fact_routes, problems
from sitrepd.stack.models import Stack, StackPublic
from sitrepd.stack.slice import STACK

router = api_router("stacks")


@router.get(
    "/launches/{fact_id}/stack", name="get_launch_stack", response_model=StackPublic, response_model_exclude_none=True,
    responses=problems(UnknownId),
)  # fmt: skip
def of_launch(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Any:
    """The software that a launch ran on, as observed when it started or as told last."""
    launch = facts.get(db, runtime.registry.by_word["launch"], fact_id)
    newest = select(Stack).where(Stack.launch_id == launch.id).order_by(col(Stack.id).desc()).limit(1)
    row = db.exec(newest).first()
    if row is None:
        why = "it is asked for when it starts; try again in a moment" if launch.watched else "none was told"
        raise UnknownId(f"The stack of {fact_id} is not known: {why}.")
    return facts.publish_one(db, runtime.registry, STACK, row)


def routers() -> Sequence[APIRouter]:
    return router, fact_routes(STACK)
