"""A checkpoint alone on a page: to print, to link to, to keep."""

from __future__ import annotations

from fastapi import APIRouter, Request
from sqlmodel import Session
from starlette.responses import Response

from sitrepd import facts
from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.latest import Latest, response
from sitrepd.checkpoints.service import checkpoints
from sitrepd.dashboard.looking import for_people
from sitrepd.routing import RuntimeDep

router = APIRouter(include_in_schema=False)


@router.get("/checkpoints/{fact_id}")
def checkpoint_page(fact_id: str, request: Request, runtime: RuntimeDep, budget: str | None = None) -> Response:
    """Its address and its bytes never change; `budget` makes it shorter."""

    def look(db: Session) -> Response:
        row = facts.get(db, runtime.registry.by_word["checkpoint"], fact_id)
        size = parse_budget(budget) if budget is not None else None
        page = response(checkpoints(runtime).text(row, "html", size), "html", f"C{row.id}")
        return Latest.conditional(page, request.headers.get("if-none-match"))

    return for_people(runtime, look)
