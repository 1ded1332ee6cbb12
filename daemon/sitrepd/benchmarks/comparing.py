"""HTTP of comparisons: the table with what it means, the same as CSV or Markdown, and charts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, Query, Response
from pydantic import BaseModel, Field
from sqlmodel import Session

from sitrepd import facts
from sitrepd.benchmarks import service
from sitrepd.errors import InvalidFact, NoSession, UnknownId
from sitrepd.facts import Scope
from sitrepd.redact import redact_text
from sitrepd.routing import HintDep, ReadDep, RuntimeDep, SessionId, api_router, problems, session_id
from sitrepd.slices import Registry

if TYPE_CHECKING:
    from sitrepd.benchmarks.decide import Decision
    from sitrepd.benchmarks.speculative import Model

router = api_router("benchmarks")


class Judged(BaseModel):
    """Means and intervals; `low` and `high` are per cent to the baseline."""

    count: int = Field(description="Values that the mean is of: runs, or the samples of a single run.")
    mean: float
    word: str | None = Field(
        None, description="better, worse, different, no difference seen, or one run only: not known."
    )
    low: float | None = None
    high: float | None = None
    mean_low: float | None = None
    mean_high: float | None = None


class Verdict(Judged):
    """What the difference of one row to the baseline means."""

    outliers: list[str] = Field(default_factory=list, description="Runs that do not belong to the others.")
    without_outliers: Judged | None = Field(None, description="The same without these.")
    marks: list[str] = Field(default_factory=list, description="What speaks against single runs.")


class ComparedRow(BaseModel):
    """One configuration; `difference` is to the baseline, such as "+5.9 %"."""

    ids: list[str]
    launches: list[str]
    label: str
    value: float
    text: str = Field(description="The value as told, or the mean of the repeats.")
    texts: list[str]
    unit: str | None = None
    difference: str | None = None
    why: str | None = Field(None, description="Why it is not compared with the baseline.")
    baseline: bool
    best: bool
    comparable: bool
    superseded: bool
    words: list[str]
    notes: list[str]
    verdict: Verdict
    settings: dict[str, Any] = Field(description="Those in which the configurations differ.")
    throughput: float | None = Field(None, description="The mean of output_throughput.")
    latency: float | None = Field(None, description="The mean of the latency that the Pareto front is of.")
    pareto: bool | None = Field(None, description="Whether no other row has more throughput at no more latency.")
    cost_per_million: float | None = Field(None, description="Of a million output tokens, by `price`.")
    joules_per_token: float | None = Field(None, description="Energy of all GPUs of the host for an output token.")


class Compared(BaseModel):
    """The runs of a session by one metric."""

    metric: str
    unit: str | None = None
    better: str | None = None
    rows: list[ComparedRow]
    notes: list[str] = Field(description="What keeps it from being complete.")
    latency: str | None = Field(None, description="The metric that the Pareto front is of, against output_throughput.")
    method: str = Field(description="How the intervals are made.")


class Asked(BaseModel):
    """What is compared, as the queries of all these routes say it."""

    metric: Annotated[str | None, Query(description="The session's own if absent.")] = None
    run: Annotated[list[str], Query(description="Only these runs, and the baseline.")] = Field(default_factory=list)
    baseline: Annotated[str | None, Query(description="The run to compare with, instead of the marked one.")] = None
    latency: Annotated[str | None, Query(description="The latency of the Pareto front.")] = None
    price: Annotated[float | None, Query(gt=0, lt=1e9, description="Of one hour of all GPUs, in any currency.")] = None


def _asked(
    metric: Annotated[str | None, Query(description="The session's own if absent.")] = None,
    run: Annotated[list[str] | None, Query(description="Only these runs, and the baseline.")] = None,
    baseline: Annotated[str | None, Query(description="The run to compare with, not the marked one.")] = None,
    latency: Annotated[str | None, Query(description="The latency of the Pareto front.")] = None,
    price: Annotated[float | None, Query(gt=0, lt=1e9, description="Of an hour of all GPUs, in any currency.")] = None,
) -> Asked:
    return Asked(metric=metric, run=run or [], baseline=baseline, latency=latency, price=price)


AskedDep = Annotated[Asked, Depends(_asked)]


def decided(db: Session, registry: Registry, number: int | None, asked: Asked) -> Decision:
    """The decision on the runs of a session."""
    from sitrepd.benchmarks.decide import decide
    from sitrepd.benchmarks.energy import joules_per_token

    scope = Scope(registry, "observed", number)
    which = service.Which(asked.metric, asked.run, asked.baseline, asked.latency)
    found, samples = service.comparison(db, scope, which)
    return decide(found, samples, asked.latency, asked.price, joules_per_token(db, scope, found))


def _decided(fact_session: SessionId, db: ReadDep, runtime: RuntimeDep, hint: HintDep, asked: AskedDep) -> Any:
    return decided(db, runtime.registry, session_id(db, fact_session, hint), asked)


DecisionDep = Annotated[Any, Depends(_decided)]


@router.get(
    "/sessions/{fact_session}/comparison", name="get_comparison", response_model=Compared,
    response_model_exclude_none=True, responses=problems(NoSession, InvalidFact),
)  # fmt: skip
def compare(told: DecisionDep) -> Response:
    """The runs of a session: value, difference to the baseline, how sure it is, and which is best."""
    from sitrepd.benchmarks.verdicts import METHOD

    found = told.comparison
    rows: list[Any] = [
        {name: getattr(row, name) for name in ComparedRow.model_fields if hasattr(row, name)}
        | {name: value for name, value in vars(one).items() if name != "verdict"}
        | {"verdict": asdict(one.verdict)}
        for row, one in zip(found.rows, told.rows, strict=True)
    ]
    compared = Compared.model_validate(
        {
            "metric": redact_text(found.metric), "unit": found.unit, "better": found.better, "rows": rows,
            "notes": found.notes, "latency": told.latency, "method": METHOD,
        }
    )  # fmt: skip
    # As bytes, since FastAPI would check every row once more.
    return Response(compared.model_dump_json(exclude_none=True), media_type="application/json")


@router.get(
    "/sessions/{fact_session}/comparison/table", name="get_comparison_table", response_class=Response,
    responses=problems(NoSession, InvalidFact),
)  # fmt: skip
def table(
    told: DecisionDep, format: Annotated[Literal["csv", "md"], Query(description="csv or md.")] = "csv"
) -> Response:
    """The comparison as CSV or Markdown, one row a configuration."""
    from sitrepd.benchmarks.tables import as_csv, as_markdown

    if format == "csv":
        return Response(as_csv(told), media_type="text/csv; charset=utf-8")
    return Response(as_markdown(told), media_type="text/markdown; charset=utf-8")


class ExpectedSteps(BaseModel):
    """One number of speculative steps; speed-ups are to the baseline."""

    steps: int
    tokens: float = Field(description="Tokens of a step: the measured accept length, else the expected one.")
    cost: float = Field(description="Of a step, in plain decode steps.")
    expected: float
    measured: float | None = None
    off_percent: float | None = Field(None, description="How far the expected speed-up is from the measured one.")
    ids: list[str] = Field(default_factory=list)


class SpeculativeModel(BaseModel):
    """What a model of speculative decoding expects, beside what was measured."""

    acceptance: float = Field(description="The chance of a draft to be accepted.")
    acceptance_from: str
    base_cost: float = Field(description="Of verifying and the rest of a step, in plain decode steps.")
    draft_cost: float = Field(description="Of each draft, in plain decode steps.")
    costs_from: str
    best: list[int] = Field(description="The fastest number of steps, then those as good; 0 is no speculation.")
    rows: list[ExpectedSteps]
    misfit_percent: float | None = Field(None, description="Root mean square of what it is off.")
    blind_percent: float | None = Field(None, description="The same of points that the fit had not seen.")
    notes: list[str] = Field(default_factory=list)
    formula: str = "speed-up = tokens / cost; tokens = (1 - a^(k+1)) / (1 - a); cost = base + k * draft"


class AskedModel(BaseModel):
    """What the model is told, besides what was measured."""

    accept_rate: float | None = None
    profile: str | None = None
    profile_steps: int | None = None
    plain_ms: float | None = None


def _asked_model(
    accept_rate: Annotated[float | None, Query(ge=0, le=1, description="The chance of a draft to be accepted.")] = None,
    profile: Annotated[str | None, Query(description="A profile with phases of draft and verify.")] = None,
    profile_steps: Annotated[int | None, Query(ge=1, le=1000, description="The steps that it was made with.")] = None,
    plain_ms: Annotated[float | None, Query(gt=0, description="Milliseconds of a plain decode step.")] = None,
) -> AskedModel:
    return AskedModel(accept_rate=accept_rate, profile=profile, profile_steps=profile_steps, plain_ms=plain_ms)


AskedModelDep = Annotated[AskedModel, Depends(_asked_model)]


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


@router.get(
    "/sessions/{fact_session}/comparison/speculative", name="get_speculative_model", response_model=SpeculativeModel,
    response_model_exclude_none=True, responses=problems(NoSession, InvalidFact, UnknownId),
)  # fmt: skip
def speculative(told: DecisionDep, db: ReadDep, runtime: RuntimeDep, asked: AskedModelDep) -> SpeculativeModel:
    """The speed-up that accept length and costs let expect, by speculative steps, and the best number of steps."""
    return model_out(modelled(db, runtime.registry, told, asked))


def model_out(model: Model) -> SpeculativeModel:
    rows = [
        ExpectedSteps(
            steps=row.steps, tokens=row.tokens, cost=row.cost, expected=row.speedup,
            measured=row.measured.speedup if row.measured else None, off_percent=_percent(row.off),
            ids=list(row.measured.ids) if row.measured else [],
        )
        for row in model.rows
    ]  # fmt: skip
    return SpeculativeModel(
        acceptance=model.acceptance, acceptance_from=model.acceptance_from, base_cost=model.costs.base,
        draft_cost=model.costs.draft, costs_from=model.costs.source, best=list(model.best), rows=rows,
        misfit_percent=_percent(model.misfit), blind_percent=_percent(model.blind), notes=list(model.notes),
    )  # fmt: skip


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


class Side(BaseModel):
    """One metric of a published result and of one's own best."""

    metric: str
    theirs: str
    ours: str
    unit: str | None = None
    difference: str | None = Field(None, description="One's own to the published.")
    verdict: str | None = Field(None, description="better or worse, where the metric says which way is.")
    id: str = Field(description="The run, or the training run.")
    label: str


class BesideOut(BaseModel):
    """A published result beside one's own."""

    reference: str
    name: str
    sides: list[Side]
    differs: list[str] = Field(description="Settings that both tell, with both values.")
    unknown: list[str] = Field(description="What one side alone tells.")
    missing: list[str] = Field(description="Published metrics that nothing of one's own has measured.")
    why: str | None = Field(None, description="Why nothing stands beside it.")


class References(BaseModel):
    data: list[BesideOut]


@router.get(
    "/sessions/{fact_session}/comparison/references", name="compare_references", response_model=References,
    response_model_exclude_none=True, responses=problems(NoSession),
)  # fmt: skip
def with_references(fact_session: SessionId, db: ReadDep, runtime: RuntimeDep, hint: HintDep) -> References:
    """Published results beside one's own best by each metric, and what differs between them."""
    from sitrepd.benchmarks.published import references_beside

    found = references_beside(db, runtime.registry, session_id(db, fact_session, hint))
    return References(data=[BesideOut.model_validate(asdict(one)) for one in found])


@router.get(
    "/sessions/{fact_session}/comparison/chart", name="get_comparison_chart", response_class=Response,
    responses=problems(NoSession, InvalidFact),
)  # fmt: skip
def chart(
    told: DecisionDep,
    db: ReadDep,
    runtime: RuntimeDep,
    model: AskedModelDep,
    kind: Annotated[
        Literal["curve", "latency", "pareto", "speculative"],
        Query(description="curve, latency, pareto or speculative."),
    ] = "curve",
    setting: Annotated[str | None, Query(description="What the curve goes over; the steps if absent.")] = None,
    format: Annotated[Literal["svg", "png"], Query(description="svg or png.")] = "svg",
) -> Response:
    """A chart: a curve over a setting with 95 % intervals, percentiles of latency, the Pareto front, or the model."""
    from sitrepd.benchmarks import charts, speculating

    if kind == "speculative":
        drawing = speculating.drawn(modelled(db, runtime.registry, told, model))
    else:
        drawing = charts.chart(told, kind, setting)
    if format == "svg":
        return Response(drawing.svg(), media_type="image/svg+xml")
    return Response(drawing.png(), media_type="image/png")
