"""What is asked of a comparison, and the decision that answers it: for the API, the pages and what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Query
from sqlmodel import Session

from sitrepd import facts
from sitrepd.benchmarks import service
from sitrepd.facts import Scope
from sitrepd.slices import Registry

if TYPE_CHECKING:
    from sitrepd.benchmarks.decide import Decision
    from sitrepd.benchmarks.speculative import Model


@dataclass(frozen=True)
class Asked:
    """What is compared, as the queries say it."""

    metric: Annotated[str | None, Query(description="The session's own if absent.")] = None
    run: Annotated[Sequence[str], Query(description="Only these runs, and the baseline.")] = ()
    baseline: Annotated[str | None, Query(description="The run to compare with, not the marked one.")] = None
    latency: Annotated[str | None, Query(description="The latency of the Pareto front.")] = None
    price: Annotated[float | None, Query(gt=0, lt=1e9, description="Of an hour of all GPUs, in any currency.")] = None


@dataclass(frozen=True)
class AskedModel:
    """What the model of speculative decoding is told, besides what was measured."""

    accept_rate: Annotated[float | None, Query(ge=0, le=1, description="The chance of a draft to be accepted.")] = None
    profile: Annotated[str | None, Query(description="A profile with phases of draft and verify.")] = None
    profile_steps: Annotated[int | None, Query(ge=1, le=1000, description="The steps that it was made with.")] = None
    plain_ms: Annotated[float | None, Query(gt=0, description="Milliseconds of a plain decode step.")] = None


AskedDep = Annotated[Asked, Depends()]
AskedModelDep = Annotated[AskedModel, Depends()]


def decided(db: Session, registry: Registry, number: int | None, asked: Asked) -> Decision:
    """The decision on the runs of a session."""
    from sitrepd.benchmarks.decide import decide
    from sitrepd.benchmarks.energy import joules_per_token

    scope = Scope(registry, "observed", number)
    which = service.Which(asked.metric, asked.run, asked.baseline, asked.latency)
    found, samples = service.comparison(db, scope, which)
    return decide(found, samples, asked.latency, asked.price, joules_per_token(db, scope, found))


def modelled(db: Session, registry: Registry, told: Decision, asked: AskedModel) -> Model:
    """The model of a comparison; InvalidFact says what is missing."""
    from sitrepd.benchmarks.speculating import model_of

    phases, steps = None, asked.profile_steps
    if asked.profile is not None:
        noun = registry.by_word["profile"]
        row = facts.get(db, noun, asked.profile)
        phases = [one.model_dump() for one in facts.publish_one(db, registry, noun, row).phases]
        steps = steps or _steps_of(db, registry, row)
    return model_of(told, asked.accept_rate, phases, steps, asked.plain_ms)


def _steps_of(db: Session, registry: Registry, profile: Any) -> int | None:
    """The steps of the run or the launch that a profile is of."""
    if profile.benchmark_id:
        benchmark: Any = db.get(registry.by_word["benchmark"].table, profile.benchmark_id)
        config = benchmark.config
    elif profile.launch_id:
        launch: Any = db.get(registry.by_word["launch"].table, profile.launch_id)
        config = launch.settings or {}
    else:
        return None
    steps = (config or {}).get("speculative_num_steps")
    return steps if isinstance(steps, int) else None
