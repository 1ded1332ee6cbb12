"""HTTP of comparisons: the table with what it means, the same as CSV or Markdown, and charts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Depends, Query, Response
from pydantic import BaseModel, Field

from sitrepd.benchmarks.asking import AskedDep, AskedModelDep, decided, modelled
from sitrepd.errors import InvalidFact, NoSession, UnknownId
from sitrepd.redact import redact_text
from sitrepd.routing import HintDep, ReadDep, RuntimeDep, SessionId, api_router, problems, session_id

if TYPE_CHECKING:
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
