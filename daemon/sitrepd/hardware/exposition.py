"""The answer to a scrape: GPUs, launches, and the daemon itself. It counts as no question, and reads what is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry
from sqlmodel import Session, col, func, select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from sitrepd import __version__
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.metrics import families
from sitrepd.launches.models import Launch
from sitrepd.launches.states import STATES
from sitrepd.runtime import Runtime

# Name, what it is, and the figure of a launch's log.
_FIGURES = (
    ("requests_running", "Requests that it works on.", "running"),
    ("requests_queued", "Requests that wait for it.", "queued"),
    ("generation_tokens_per_second", "Tokens that it generates in a second.", "gen_tok_s"),
    ("input_tokens_per_second", "Tokens that it reads in a second.", "input_tok_s"),
    ("accept_length", "Tokens that a step of speculation yields.", "accept_len"),
    ("accept_ratio", "Part of the drafted tokens that it accepts.", "accept_rate"),
    ("kv_cache_usage_ratio", "Part of its KV cache that is in use.", "token_usage"),
)


class _Everything(Collector):
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def collect(self) -> Iterator[Metric]:
        runtime = self._runtime
        info = InfoMetricFamily("sitrep_build", "The daemon.")
        info.add_metric([], {"version": __version__})
        yield info
        known = runtime.live.get("hardware")
        live = known if isinstance(known, LiveHardware) else LiveHardware(reason="the GPUs are not observed")
        yield from families(live, runtime.live.get("gpu_leaks"))
        with runtime.store.read() as db:
            yield from _launches(db, dict(runtime.live.get("launches") or {}))
        yield GaugeMetricFamily(
            "sitrep_store_size_bytes", "Size of the database.", runtime.settings.database_path.stat().st_size
        )


def _launches(db: Session, alive: dict[int, Any]) -> Iterator[Metric]:
    """All by state; of living ones what they do."""
    counted = GaugeMetricFamily("sitrep_launches", "Launches that were followed, by state.", labels=("state",))
    query = select(Launch.state, func.count()).where(col(Launch.watched).is_(True)).group_by(col(Launch.state))
    counts = dict(db.exec(query).all())
    for word in STATES:
        counted.add_metric([word], counts.get(word, 0))
    yield counted
    columns = (Launch.id, Launch.name, Launch.engine, Launch.model, Launch.port, Launch.throughput)
    rows = db.exec(select(*columns).where(col(Launch.id).in_(list(alive)))).all() if alive else []  # type: ignore[call-overload]
    yield from _living(rows, alive)


def _living(rows: Any, alive: dict[int, Any]) -> Iterator[Metric]:
    info = InfoMetricFamily("sitrep_launch", "A server that is alive.", labels=("launch",))
    state = GaugeMetricFamily("sitrep_launch_state", "Its state: 1 for that word.", labels=("launch", "state"))
    progress = GaugeMetricFamily("sitrep_launch_progress_ratio", "How far its start is.", labels=("launch",))
    figures = {
        field: GaugeMetricFamily(f"sitrep_launch_{name}", what, labels=("launch",)) for name, what, field in _FIGURES
    }
    for number, name, engine, model, port, throughput in rows:
        label, living = f"L{number}", alive[number]
        told = {"name": name, "engine": engine, "model": model, "port": str(port) if port else None}
        info.add_metric([label], {key: value for key, value in told.items() if value})
        for word in STATES:
            state.add_metric([label, word], float(living.state == word))
        if living.progress is not None:
            progress.add_metric([label], living.progress)
        for field, family in figures.items():
            value = (throughput or {}).get(field)
            if isinstance(value, int | float):
                family.add_metric([label], value)
    yield from (info, state, progress, *figures.values())


def scraped(runtime: Runtime, accept: str | None) -> tuple[bytes, str]:
    """The text and its type: OpenMetrics where the scraper takes it."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Everything(runtime))
    encode, kind = choose_encoder(accept or "")
    return encode(registry), kind


async def answer(request: Request, runtime: Runtime) -> Response:
    body, kind = await run_in_threadpool(scraped, runtime, request.headers.get("accept"))
    return Response(body, headers={"Content-Type": kind, "Cache-Control": "no-store"})
