"""Looks at the GPUs every ten seconds for what is wrong, and tells it once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.hardware import anomalies, doubts, leaks
from sitrepd.hardware.anomalies import Anomaly
from sitrepd.hardware.gpus import GpuFacts
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.meaning import gpus_of
from sitrepd.hardware.state import WORRYING
from sitrepd.runtime import Runtime
from sitrepd.storage import ids
from sitrepd.storage.base import Event

_LOADED_PERCENT = 50
# So long nothing is seen of it before it is over; what is looked at seldom takes longer.
_QUIET_S = 60.0
_QUIET_SELDOM_S = {"power cap": 200.0, "slower": 200.0}
# Of so many looks one is at what costs more: the past of a power cap, and of clocks that differ.
_SELDOM = 6
_ALIKE = 0.95
# Links that looked slow under load this often were not just waking up.
_SLOW_LOOKS = 2
_MOST_XIDS = 100


class Watch:
    """`runtime.live["gpu_leaks"]` says by UUID who left memory behind."""

    def __init__(self, runtime: Runtime, host_id: int, since: datetime | None = None) -> None:
        """What the kernel told before `since` has been looked at by the daemon before this one."""
        self._since = since or utc_now()
        self._runtime = runtime
        self._host_id = host_id
        # When it was seen last, and what was told of it, by kind and session.
        self._seen: dict[tuple[str, int], tuple[float, str]] | None = None
        self._cursor = 0
        self._ticks = 0
        self._hot: set[int] = set()
        self._links: dict[str, int] = {}
        self._facts: tuple[GpuFacts, ...] = ()

    async def tick(self) -> None:
        with suppress(StoreUnusable):
            live: LiveHardware = self._runtime.live["hardware"]
            now = utc_now()
            found = await asyncio.to_thread(self._look, live, now)
            await self._tell(found, now)

    # --- looking -------------------------------------------------------------------------------------------------

    def _look(self, live: LiveHardware, now: datetime) -> list[Anomaly]:
        alive: Collection[int] = tuple(self._runtime.live.get("launches") or ())
        with self._runtime.store.read() as db:
            self._begin(db)
            found = [*self._of_load(db, live, alive, now), *self._of_memory(db, live, alive, now)]
            found += anomalies.errors(db, self._host_id, _answering(live), now) if live.reason is None else []
            found += anomalies.narrow(live.facts, self._slow_links(live)) if live.reason is None else []
            return [*found, *self._xids(db)]

    def _begin(self, db: Session) -> None:
        if self._seen is None:
            self._seen = {key: (monotonic(), title) for key, title in doubts.under_way(db).items()}
            before = select(Event.id).where(Event.at < self._since).order_by(col(Event.id).desc()).limit(1)
            self._cursor = db.exec(before).first() or 0

    def _of_load(self, db: Session, live: LiveHardware, alive: Iterable[int], now: datetime) -> Iterable[Anomaly]:
        """Only where a GPU works and its latest sample shows something, or did before; what runs on it is named."""
        busy = {one.index: one for one in _answering(live) if (one.utilization_percent or 0) >= _LOADED_PERCENT}
        if not busy or live.reason is not None:
            return
        seldom, self._ticks = self._ticks % _SELDOM == 0, self._ticks + 1
        hot = self._hot | {gpu for gpu, one in busy.items() if not WORRYING.isdisjoint(one.throttle)}
        capped = {gpu for gpu, one in busy.items() if seldom and one.throttle}
        groups: dict[int | None, set[int]] = {
            number: set(busy).intersection(gpus_of(db, self._host_id, number)) for number in alive
        }
        groups[None] = set(busy).difference(*groups.values())
        self._hot = set()
        for number, gpus in groups.items():
            told = anomalies.throttling(db, self._host_id, sorted(hot & gpus), sorted(capped & gpus), now)
            warm = {gpu for one in told for gpu in one.gpus}
            self._hot |= warm & hot
            slow = self._lagging(db, [busy[gpu] for gpu in sorted(gpus)], now) if seldom else None
            if slow is not None and not warm.issuperset(slow.gpus):
                told.append(slow)
            yield from (_on(one, number) for one in told)

    def _lagging(self, db: Session, peers: Sequence[Any], now: datetime) -> Anomaly | None:
        """Asks for their past where one of them has a lower clock than the others at this moment."""
        clocks = [one.sm_clock_mhz for one in peers if one.sm_clock_mhz]
        if not clocks or min(clocks) > _ALIKE * max(clocks):
            return None
        return anomalies.lagging(db, self._host_id, [one.index for one in peers], now)

    def _of_memory(self, db: Session, live: LiveHardware, alive: Collection[int], now: datetime) -> Iterable[Anomaly]:
        found = leaks.leaks(db, live, alive, now)
        self._runtime.live["gpu_leaks"] = {leak.uuid: leak.why for leak in found}
        return leaks.anomalies(found)

    def _slow_links(self, live: LiveHardware) -> Mapping[str, int]:
        """By UUID, generations below the best at the last looks at links of GPUs that work; idle ones slow down."""
        if live.facts is not self._facts:
            self._facts = live.facts
            busy = {one.uuid for one in _answering(live) if (one.utilization_percent or 0) >= _LOADED_PERCENT}
            for gpu in live.facts:
                if gpu.uuid and gpu.uuid in busy:
                    self._links[gpu.uuid] = self._links.get(gpu.uuid, 0) + 1 if _is_slow(gpu) else 0
        return {
            gpu.uuid: gpu.pcie_generation or 0
            for gpu in live.facts
            if gpu.uuid and _is_slow(gpu) and self._links.get(gpu.uuid, 0) >= _SLOW_LOOKS
        }

    def _xids(self, db: Session) -> Iterable[Anomaly]:
        """What the kernel's log has told of since the last look."""
        mine = Event.subject == ids.public_id("H", self._host_id)  # by its index: most events are of others
        query = select(Event.id, Event.data).where(mine, col(Event.id) > self._cursor, Event.kind == "host.xid")
        for number, data in db.exec(query.order_by(col(Event.id)).limit(_MOST_XIDS)).all():
            self._cursor = number or self._cursor
            yield xid(data or {})

    # --- telling -------------------------------------------------------------------------------------------------

    async def _tell(self, found: Iterable[Anomaly], now: datetime) -> None:
        """How long nothing was seen is counted without the clock, which may be set, and goes on in suspend."""
        seen, moment = self._seen if self._seen is not None else {}, monotonic()
        for anomaly in found:
            for session_id in await asyncio.to_thread(self._sessions, anomaly):
                before, seen[anomaly.key, session_id] = seen.get((anomaly.key, session_id)), (moment, anomaly.title)
                if before is None or before[1] != anomaly.title:
                    await self._write(doubts.tell, anomaly, session_id, now)
        for (key, session_id), (at, _) in list(seen.items()):
            if moment - at >= _QUIET_SELDOM_S.get(key, _QUIET_S):
                del seen[key, session_id]
                if doubts.passes(key):
                    await self._write(doubts.over, key, session_id, now)

    async def _write(self, job: Callable[..., None], *told: Any) -> None:
        registry = self._runtime.registry
        await self._runtime.store.write_async(lambda db: job(db, registry, *told))

    def _sessions(self, anomaly: Anomaly) -> list[int]:
        with self._runtime.store.read() as db:
            return doubts.sessions_of(db, anomaly)


def xid(data: Mapping[str, Any]) -> Anomaly:
    """One of each number and GPU: it says what the driver has run into, not whose fault that is."""
    code, gpu, meaning = data.get("xid"), data.get("gpu"), data.get("meaning")
    where = f"GPU {gpu}" if gpu is not None else f"the GPU at {data.get('pci')}"
    who = f"pid {data['pid']}" + (f" ({data['name']})" if data.get("name") else "") if data.get("pid") else ""
    detail = "; ".join(part for part in (str(meaning or "not in NVIDIA's list"), who) if part)
    return Anomaly(f"xid {code} of {where}", () if gpu is None else (gpu,), f"Xid {code} of {where}", detail)


def _answering(live: LiveHardware) -> list[Any]:
    return [sample for sample in live.samples if sample.reason is None]


def _on(anomaly: Anomaly, launch: int | None) -> Anomaly:
    return replace(anomaly, launch=launch)


def _is_slow(gpu: GpuFacts) -> bool:
    return bool(gpu.pcie_generation and gpu.pcie_generation_max and gpu.pcie_generation < gpu.pcie_generation_max)
