"""The page of a comparison: every row with how sure it is, by any metric and baseline, and the charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from markupsafe import Markup
from sqlmodel import Session
from starlette.responses import Response

from sitrepd.benchmarks import charts
from sitrepd.benchmarks.asking import Asked, AskedModel, decided, modelled
from sitrepd.benchmarks.compare import Comparison
from sitrepd.benchmarks.decide import Decision
from sitrepd.benchmarks.labels import STEPS
from sitrepd.benchmarks.metrics import describe
from sitrepd.benchmarks.published import references_beside
from sitrepd.benchmarks.runs import metric_names
from sitrepd.benchmarks.speculating import drawn
from sitrepd.benchmarks.tables import interval
from sitrepd.benchmarks.verdicts import METHOD
from sitrepd.dashboard.looking import common, for_people, number_of, page_of, view_of
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.routing import RuntimeDep
from sitrepd.sessions.models import SessionRow
from sitrepd.slices import Registry
from sitrepd.storage import events

router = APIRouter(include_in_schema=False)
_CHARTS: tuple[tuple[charts.Kind, str], ...] = (
    ("curve", "Over a setting, with 95 % intervals of the means"),
    ("pareto", "Throughput against latency; the line joins what no other run beats"),
    ("latency", "Percentiles of latency"),
)
_MOST_RUNS = 200
Told = Annotated[str, Query(max_length=500)]


@router.get("/s/{session}/comparison")
def comparison_page(
    session: str,
    runtime: RuntimeDep,
    metric: Told = "",
    baseline: Told = "",
    latency: Told = "",
    price: Told = "",
    setting: Told = "",
    accept_rate: Told = "",
    run: Annotated[list[str] | None, Query()] = None,
) -> Response:
    """What a form left empty is as if it had not been asked for."""

    def look(db: Session) -> Response:
        number = number_of(db, session)
        if number is None:
            raise UnknownId("Runs of no session are not compared.")
        asked = Asked(
            metric=metric or None, run=run or [], baseline=baseline or None, latency=latency or None,
            price=_price(price),
        )  # fmt: skip
        told = decided(db, runtime.registry, number, asked)
        names = metric_names(db, number)
        context: dict[str, Any] = {
            "session": db.get(SessionRow, number), "event": events.last_event_id(db), "told": told, "asked": asked,
            "setting": setting, "rows": list(zip(told.comparison.rows, told.rows, _whiskers(told), strict=True)),
            "metrics": names, "latencies": [name for name in names if describe(name)[1] == "lower"],
            "baselines": _baselines(told.comparison), "interval": interval, "signed": _signed, "method": METHOD,
            "charts": list(_charts(told, setting or None)), "accept_rate": accept_rate,
            "model": _model(db, runtime.registry, told, accept_rate), "query": _query(asked, setting),
            "address": address(session),
            "references": references_beside(db, runtime.registry, number),
        }  # fmt: skip
        return page_of(runtime, "comparison", **common(view_of(runtime, db, number)), **context)

    return for_people(runtime, look)


def address(session: str) -> str:
    return f"/api/v1/sessions/{session}/comparison"


def _price(told: str) -> float | None:
    price = _number(told, "price of an hour", 1e9) if told.strip() else None
    if price == 0:
        raise InvalidFact("A price of 0 says nothing of what tokens cost.")
    return price


def _model(db: Session, registry: Registry, told: Decision, accept_rate: str) -> dict[str, Any] | None:
    """The model of speculative decoding with its chart; None where no run speculates, the reason where it cannot be."""
    rate = _number(accept_rate, "accept rate", 1.0) if accept_rate.strip() else None
    try:
        model = modelled(db, registry, told, AskedModel(accept_rate=rate))
    except InvalidFact as error:
        return {"why": error.detail} if any(STEPS in row.runs[0].config for row in told.comparison.rows) else None
    return {"why": None, "told": model, "drawing": Markup(drawn(model).svg())}


def _number(told: str, what: str, most: float) -> float:
    try:
        number = float(told)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise InvalidFact(f"The {what} {told!r} is no number from 0 to {most:g}.")
    return number


def _query(asked: Asked, setting: str) -> str:
    """What was asked for, for the addresses of table and charts."""
    told = {name: value for name, value in asdict(asked).items() if value} | ({"setting": setting} if setting else {})
    return urlencode(told, doseq=True)


def _baselines(found: Comparison) -> list[tuple[str, str]]:
    """The first run of each of the latest rows that count, to choose from."""
    rows = [row for row in found.rows if row.comparable and not row.superseded]
    return [(row.ids[0], row.label) for row in rows[-_MOST_RUNS:]]


def _charts(told: Decision, setting: str | None) -> Iterator[tuple[str, str, Markup]]:
    """Those that can be drawn; their words are escaped where they are made."""
    for kind, about in _CHARTS:
        try:
            drawing = charts.chart(told, kind, setting)
        except InvalidFact:
            continue
        yield kind, about, Markup(drawing.svg())


def _whiskers(told: Decision) -> list[tuple[float, float, float, str] | None]:
    """(low, difference, high, kind) in hundredths of the column, whose middle is the baseline."""
    base = told.comparison.baseline
    found: list[tuple[float, float, float] | None] = []
    for row, one in zip(told.comparison.rows, told.rows, strict=True):
        if base is None or row is base or row.difference is None:
            found.append(None)
            continue
        middle = float(row.value / base.value - 1) * 100
        low, high = one.verdict.low, one.verdict.high
        found.append((low if low is not None else middle, middle, high if high is not None else middle))
    widest = max((abs(edge) for one in found if one is not None for edge in one), default=0.0) or 1.0
    return [
        None if edges is None else _whisker(edges, 46 / widest, one.verdict.word)
        for one, edges in zip(told.rows, found, strict=True)
    ]


def _whisker(edges: tuple[float, float, float], scale: float, word: str | None) -> tuple[float, float, float, str]:
    low, middle, high = (50 + edge * scale for edge in edges)
    return low, middle, high, word if word in ("better", "worse") else "same"


def _signed(share: float) -> str:
    """What rounds to zero has no minus."""
    return f"{round(100 * share, 1) + 0.0:+.1f} %"
