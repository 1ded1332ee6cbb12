"""Figures of a server over time, from its batch lines: stored one a second, read in as many points as are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from statistics import fmean
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import delete, func
from sqlmodel import Session, col, select

from sitrepd.launches.engines.base import Throughput
from sitrepd.launches.models import LaunchSample

SUMMED = ("running", "queued", "gen_tok_s", "input_tok_s")
FIGURES = (*SUMMED, "token_usage", "accept_len", "accept_rate")
_FORGET_ROWS = 5000


class Point(BaseModel):
    """Means over the seconds of one point; a figure that no line told is absent."""

    at: datetime
    running: float | None = None
    queued: float | None = None
    token_usage: float | None = None
    gen_tok_s: float | None = None
    input_tok_s: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None


class Summary(BaseModel):
    """Over the seconds in which the server told figures."""

    since: datetime
    until: datetime
    seconds: int = Field(description="Seconds with figures.")
    gen_tok_s: float | None = Field(None, description="Mean tokens a second while requests ran.")
    peak_gen_tok_s: float | None = None
    accept_len: float | None = Field(None, description="Mean accept length, weighted by the tokens of its second.")
    accept_rate: float | None = None
    running: float | None = None
    token_usage: float | None = Field(None, description="The highest share of KV tokens in use, 0 to 1.")


def record(db: Session, number: int, told: Iterable[Throughput]) -> None:
    """One row for each second; what several ranks say of one second is added up."""
    seconds: dict[datetime, dict[str, dict[str, float]]] = {}
    for event in told:
        ranks = seconds.setdefault(event.at.replace(microsecond=0), {})
        figures = ranks.setdefault(event.rank, {})
        figures |= {name: value for name in FIGURES if (value := getattr(event, name)) is not None}
    for at, ranks in seconds.items():
        db.add(LaunchSample(launch_id=number, at=at, **_together(list(ranks.values()))))


def _together(ranks: Sequence[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in FIGURES:
        values = [figures[name] for figures in ranks if name in figures]
        if values:
            row[name] = sum(values) if name in SUMMED else max(values) if name == "token_usage" else fmean(values)
    return row


def series(db: Session, number: int, since: datetime | None, points: int) -> list[Point]:
    """The samples since then in at most so many points of equal length, the empty ones left out."""
    rows = _rows(db, number, since)
    if not rows:
        return []
    first, last = rows[0].at, rows[-1].at
    width = max((last - first).total_seconds() / points, 1.0)
    buckets: dict[int, list[LaunchSample]] = {}
    for row in rows:
        buckets.setdefault(min(int((row.at - first).total_seconds() / width), points - 1), []).append(row)
    return [_point(first + timedelta(seconds=width * place), inside) for place, inside in sorted(buckets.items())]


def _point(at: datetime, rows: Sequence[LaunchSample]) -> Point:
    means = {name: _mean([getattr(row, name) for row in rows]) for name in FIGURES}
    return Point(at=at, **means)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(fmean(known), 4) if known else None


def _rows(db: Session, number: int, since: datetime | None) -> Sequence[LaunchSample]:
    query = select(LaunchSample).where(LaunchSample.launch_id == number)
    if since is not None:
        query = query.where(col(LaunchSample.at) >= since)
    return db.exec(query.order_by(col(LaunchSample.at))).all()


def summary(db: Session, number: int, since: datetime | None = None) -> Summary | None:
    """None where no figures are known; computed by the database, for a life has many seconds."""
    sample = LaunchSample
    tokens = col(sample.gen_tok_s)
    busy = func.coalesce(sample.running, 1) > 0
    weight = func.sum(tokens).filter(col(sample.accept_len).is_not(None))
    chosen = [
        func.min(sample.at), func.max(sample.at), func.count(func.distinct(sample.at)),
        func.avg(tokens).filter(busy, tokens > 0), func.max(tokens),
        func.sum(col(sample.accept_len) * tokens) / weight, func.avg(sample.accept_rate),
        func.avg(sample.running), func.max(sample.token_usage),
    ]  # fmt: skip
    query = select(*chosen).where(sample.launch_id == number)  # type: ignore[call-overload]
    if since is not None:
        query = query.where(col(sample.at) >= since)
    first, last, seconds, *figures = db.exec(query).one()
    if not seconds:
        return None
    names = ("gen_tok_s", "peak_gen_tok_s", "accept_len", "accept_rate", "running", "token_usage")
    told = {name: round(value, 4) for name, value in zip(names, figures, strict=True) if value is not None}
    return Summary(since=_utc(first), until=_utc(last), seconds=seconds, **told)


def _utc(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def forget(db: Session, before: datetime) -> int:
    """Deletes a part of what is older, so that the writer is never held up for long; how many rows it was."""
    old = select(LaunchSample.id).where(col(LaunchSample.at) < before).limit(_FORGET_ROWS)
    return int(db.execute(delete(LaunchSample).where(col(LaunchSample.id).in_(old))).rowcount)  # type: ignore[attr-defined]
