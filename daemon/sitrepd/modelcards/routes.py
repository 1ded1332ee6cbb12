"""HTTP of model cards: made from a folder of the daemon's machine, and what fits on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from sqlmodel import Session
from starlette.concurrency import run_in_threadpool

from sitrepd import facts
from sitrepd.errors import InvalidFact, NoSession, UnknownId
from sitrepd.facts import Scope
from sitrepd.modelcards import service
from sitrepd.modelcards.headers import BadModelFolder
from sitrepd.modelcards.models import ModelPublic
from sitrepd.modelcards.slice import MODEL
from sitrepd.routing import FactId, HintDep, ReadDep, RuntimeDep, api_router, fact_routes, problems
from sitrepd.sessions import current
from sitrepd.shapes import Name, Shape, Text, example

router = api_router("models")


class CardAsked(Shape):
    """A folder with config.json; its safetensors headers are read, its weights are not."""

    model_config = example({"path": "/models/llama-3.1-8b"})
    path: Text = Field(min_length=1, max_length=4096, description="Folder on the daemon's machine, from the root.")
    name: Name | None = Field(None, description="What it is called; else as the folder is.")


class WhyOther(BaseModel):
    """One thing that the engine reported otherwise than the card supposes; `tokens` is what it alone changes."""

    what: str
    supposed: float
    reported: float
    unit: str
    tokens: int


class KvFit(BaseModel):
    """Of one GPU: free_bytes × fraction − weight_bytes − draft_weight_bytes = room_bytes; ÷ token_bytes = tokens."""

    model: str
    free_bytes: int = Field(description="Free before the weights were loaded.")
    fraction: float
    tp: int
    kv_type: str
    weight_bytes: int
    draft_weight_bytes: int
    room_bytes: int
    token_bytes: float = Field(description="What one token takes; of the draft too.")
    tokens: int
    reported: int | None = Field(None, description="Tokens that the engine reported.")
    why: list[WhyOther] = Field(default_factory=list, description="Why these differ; the last is what remains.")
    notes: list[str] = Field(default_factory=list)


@router.post(
    "/models/card", name="make_model_card", response_model=ModelPublic, response_model_exclude_none=True,
    status_code=201, responses=problems(BadModelFolder, NoSession),
)  # fmt: skip
async def make(body: CardAsked, runtime: RuntimeDep, hint: HintDep, response: Response) -> Any:
    """Make the card of a model from its folder; the same folder again gives the same card."""
    from sitrepd.modelcards.card import read_card

    folder = Path(body.path)
    if not folder.is_absolute():
        raise BadModelFolder(f"{body.path!r} does not begin at the root: the daemon has another working directory.")
    card = await run_in_threadpool(read_card, folder, body.name)

    def job(db: Session) -> tuple[int | None, Any, bool]:
        number = current.resolve(db, hint)
        scope = Scope(runtime.registry, f"observed:{folder}", number)
        row, new = service.store(db, scope, card)
        db.flush()
        return number, facts.publish_one(db, runtime.registry, MODEL, row), new

    number, told, new = await runtime.store.write_async(job)
    response.status_code = 201 if new else 200
    runtime.activity.touch(number)
    return told


@router.get(
    "/models/{fact_id}/fit", name="get_model_fit", response_model=KvFit, response_model_exclude_none=True,
    responses=problems(InvalidFact, UnknownId),
)  # fmt: skip
def fit(
    fact_id: FactId,
    db: ReadDep,
    runtime: RuntimeDep,
    launch: Annotated[str | None, Query(description="Takes what is left out from it, and compares.")] = None,
    tp: Annotated[int | None, Query(ge=1, le=4096, description="Tensor-parallel size.")] = None,
    fraction: Annotated[float | None, Query(gt=0, le=1, description="As --mem-fraction-static.")] = None,
    free_bytes: Annotated[int | None, Query(gt=0, lt=2**63, description="Free on one GPU before loading.")] = None,
    kv_type: Annotated[str | None, Query(description="bf16, fp16, fp8, fp4 or fp32.")] = None,
    draft: Annotated[str | None, Query(description="Model card or folder of the draft.")] = None,
) -> KvFit:
    """Tokens of KV cache that fit on a GPU by SGLang's rule, beside what a launch reported, and why they differ."""
    row = facts.get(db, MODEL, fact_id)
    wanted = service.Wanted(launch, tp, fraction, free_bytes, kv_type, draft)
    found = service.fitted(db, Scope(runtime.registry, "observed"), row, wanted)
    return KvFit.model_validate(
        {
            "model": fact_id, **asdict(found.asked), **asdict(found.fit), "reported": found.reported,
            "why": [asdict(one) for one in found.why], "notes": list(found.notes),
        }
    )  # fmt: skip


def routers() -> Sequence[APIRouter]:
    return router, fact_routes(MODEL)
