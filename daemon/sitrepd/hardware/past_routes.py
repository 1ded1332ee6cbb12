"""HTTP of what the GPUs did: while a launch or a benchmark ran, and in the time up to now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Query
from sqlmodel import Session

from sitrepd import facts
from sitrepd.clock import utc_now
from sitrepd.errors import InvalidFact, UnknownId
from sitrepd.hardware import past, series, spans
from sitrepd.hardware.bands import bands
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.meaning import HardwareSummary, summarised
from sitrepd.routing import ReadDep, RuntimeDep, api_router, problems
from sitrepd.runtime import Runtime
from sitrepd.shapes import Instant
from sitrepd.storage import ids

router = api_router("gpus")
_HOUR, _FIRST = timedelta(hours=1), datetime.min.replace(tzinfo=UTC)
_GAP_SAMPLES = 2.5
_LONGEST_S = 5 * 366 * 86400


@router.get("/gpus/summary", name="summarise_gpus", responses=problems(UnknownId, InvalidFact))
def summary(
    db: ReadDep,
    runtime: RuntimeDep,
    launch: Annotated[str | None, Query(description="From the start of this launch to its end, on its GPUs.")] = None,
    benchmark: Annotated[str | None, Query(description="While this benchmark ran, on the GPUs of its launch.")] = None,
    since: Annotated[Instant | None, Query(description="From when; an hour before `until` if absent.")] = None,
    until: Annotated[Instant | None, Query(description="Until when; now if absent.")] = None,
) -> HardwareSummary:
    """Mean, extremes and percentiles of each GPU, its energy, and how long what held its clocks down."""
    if launch or benchmark:
        return spans.summary_of(db, _span(db, runtime, launch, benchmark))
    start, end = asked_time(since, until)
    host_id = runtime.host_id or 0
    return summarised(db, host_id, series.known_gpus(db, host_id), start, end)


def _span(db: Session, runtime: Runtime, launch: str | None, benchmark: str | None) -> spans.Span:
    by_word = runtime.registry.by_word
    if benchmark:
        found = spans.of_benchmark(db, facts.get(db, by_word["benchmark"], benchmark))
        if found is None:
            raise UnknownId(
                f"When {benchmark} was measured is not known: only of one that was seen as it ended, "
                "against a launch and with its duration, are the GPUs' figures told."
            )
        return found
    found = spans.of_launch(facts.get(db, by_word["launch"], launch or ""))
    if found is None:
        raise UnknownId(f"{launch} was told of and not followed: what the GPUs did meanwhile is not known.")
    return found


def asked_time(since: datetime | None, until: datetime | None) -> tuple[datetime, datetime]:
    """The last hour before `until` where no more is told; there is none before the year 1."""
    end = until or utc_now()
    start = since or max(end, _FIRST + _HOUR) - _HOUR
    if start >= end:
        raise InvalidFact(f"since={start.isoformat()} is not before until={end.isoformat()}.")
    return start, end


@router.get("/gpus/past", name="chart_gpus")
def charted(
    db: ReadDep,
    runtime: RuntimeDep,
    length_s: Annotated[float, Query(ge=10, le=_LONGEST_S, description="How long back from now.")] = 900,
    points: Annotated[int, Query(ge=2, le=5000, description="Buckets at the most.")] = 600,
    after: Annotated[
        int | None, Query(ge=0, description="Start of the last bucket that is known (Unix time): it and later ones.")
    ] = None,
) -> past.GpusPast:
    """What all GPUs did up to now, in buckets of a round length, with launches and benchmarks as bands."""
    host_id = runtime.host_id or 0
    step = past.step_s(length_s, points)
    since, until = past.window(utc_now(), length_s, step, after)
    live: LiveHardware = runtime.live["hardware"]
    names = dict.fromkeys(series.known_gpus(db, host_id)) | {gpu.index: gpu.name for gpu in live.facts}
    gap_s = _GAP_SAMPLES * runtime.settings.sample_idle_s
    at, gpus = past.read(db, host_id, dict(sorted(names.items())), since, until, step, gap_s)
    running = runtime.live.get("benchmarks_running") or ()
    return past.GpusPast(
        host=ids.public_id("H", host_id), since=since, until=until, bucket_s=step, at=at, gpus=gpus,
        bands=bands(db, host_id, since, until, running),
    )  # fmt: skip
