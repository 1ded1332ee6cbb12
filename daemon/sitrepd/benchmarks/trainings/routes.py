"""HTTP of training runs: their curves."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response

from sitrepd import facts
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.routing import ReadDep, RuntimeDep, api_router, problems

router = api_router("benchmarks")


@router.get(
    "/trainings/{fact_id}/chart", name="get_training_chart", response_class=Response,
    responses=problems(UnknownId, InvalidFact),
)  # fmt: skip
def chart(
    fact_id: str,
    db: ReadDep,
    runtime: RuntimeDep,
    metric: Annotated[str | None, Query(description="The one that matters most if absent.")] = None,
    format: Annotated[Literal["svg", "png"], Query(description="svg or png.")] = "svg",
) -> Response:
    """The curve of a metric by epoch or step, with the best point."""
    from sitrepd.benchmarks.trainings import best

    noun = runtime.registry.by_word["training"]
    told: Any = facts.publish_one(db, runtime.registry, noun, facts.get(db, noun, fact_id))
    drawing = best.drawn(best.places(told.points), metric)
    if format == "svg":
        return Response(drawing.svg(), media_type="image/svg+xml")
    return Response(drawing.png(), media_type="image/png")
