"""HTTP of agents: the hooks of their clients, and the facts that listening gives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from sqlmodel import col, func, select

from sitrepd.agents import hooks
from sitrepd.agents.clients import CLIENTS
from sitrepd.agents.door import body_of
from sitrepd.agents.slice import COMMAND, COMPACTION
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.routing import HintDep, ReadDep, RuntimeDep, api_router, fact_routes, problems
from sitrepd.sessions.models import Conversation

router = api_router("agents")


class ClientSeen(BaseModel):
    """What was heard of a client."""

    client: str
    conversations: int
    seen_at: datetime | None = Field(None, description="When a hook of it was last called.")
    calls: dict[str, int] = Field(description="Calls of each event since the daemon began.")


@router.get("/hooks", name="list_hooks", response_model_exclude_none=True)
def seen(db: ReadDep, runtime: RuntimeDep) -> list[ClientSeen]:
    """The clients whose hooks are understood, and when they were last heard."""
    query = select(Conversation.client, func.count(), func.max(Conversation.seen_at)).group_by(col(Conversation.client))
    found = {client: (count, at) for client, count, at in db.exec(query).all()}
    return [
        ClientSeen(
            client=name,
            conversations=found.get(name, (0, None))[0],
            seen_at=found.get(name, (0, None))[1],
            calls={event: count for event in CLIENTS[name] if (count := runtime.counters[f"hook {name} {event}"])},
        )
        for name in CLIENTS
    ]


@router.post(
    "/hooks/{client}/{event}",
    name="call_hook",
    response_class=Response,
    responses={
        200: {
            "description": "What the hook prints: nothing, plain text, or the client's own JSON.",
            "content": {"text/plain": {"schema": {"type": "string"}}, "application/json": {}},
        },
        **problems(InvalidFact, UnknownId),
    },
)
async def call(
    client: Annotated[str, Path(examples=["claude-code"])],
    event: Annotated[str, Path(examples=["SessionStart"])],
    request: Request,
    runtime: RuntimeDep,
    hint: HintDep,
) -> Response:
    """A hook of an agent's client: its payload, verbatim, is the body. Unknown events and fields are let pass."""
    body, asked = await body_of(request), request.query_params
    found = await hooks.answer(runtime, client, event, body, hint, asked, request.is_disconnected)
    return Response(found.body(), media_type=found.media_type)


def routers() -> Sequence[APIRouter]:
    return (router, fact_routes(COMMAND), fact_routes(COMPACTION))
