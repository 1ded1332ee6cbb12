"""What one GPU is asked over and over: each query prepared once, and no more asked where it is not supported."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sitrepd.hardware.driver import Answer, Driver
from sitrepd.hardware.gpus import GpuSample

_TEMPERATURE_GPU = 0
_CLOCK_SM = 1
_CLOCK_MEMORY = 2
_PERF_STATE_UNKNOWN = 32
_MEMORY_V2 = 0x02000028
_CORRECTED, _UNCORRECTED, _SINCE_DRIVER_LOADED = 0, 1, 0
_FIELD_MEMORY_TEMPERATURE = 82
# What holds for longer is asked seldom, and still more seldom where the driver takes its time.
_SELDOM_S = 10.0
_RARELY_S = 60.0
_SLOW_S = 0.0005

Values = dict[str, Any]


@dataclass(slots=True)
class Query:
    """`read` makes values of an answer; `instead` is asked where a driver does not know the query."""

    name: str
    read: Callable[[Answer], Values]
    args: tuple[Any, ...] = ()
    instead: Query | None = None
    due_at: float = 0.0
    ask: Callable[[], Answer] | None = None


def _often() -> list[Query]:
    """Microseconds each on every driver that was measured."""
    older = Query("nvmlDeviceGetMemoryInfo", _memory_v1)
    return [
        Query(
            "nvmlDeviceGetUtilizationRates",
            lambda told: {"utilization_percent": told.gpu, "memory_utilization_percent": told.memory},
        ),
        Query("nvmlDeviceGetMemoryInfo", _memory, (_MEMORY_V2,), older),
        Query("nvmlDeviceGetPowerUsage", lambda told: {"power_w": told / 1000}),
        Query("nvmlDeviceGetTemperature", lambda told: {"temperature_c": told}, (_TEMPERATURE_GPU,)),
        Query("nvmlDeviceGetClockInfo", lambda told: {"sm_clock_mhz": told}, (_CLOCK_SM,)),
        Query("nvmlDeviceGetClockInfo", lambda told: {"memory_clock_mhz": told}, (_CLOCK_MEMORY,)),
        Query(
            "nvmlDeviceGetCurrentClocksEventReasons",
            _reasons,
            instead=Query("nvmlDeviceGetCurrentClocksThrottleReasons", _reasons),
        ),
        Query("nvmlDeviceGetPerformanceState", _state),
    ]


def _seldom() -> list[Query]:
    return [
        Query("nvmlDeviceGetFieldValues", _memory_temperature, ([_FIELD_MEMORY_TEMPERATURE],)),
        Query("nvmlDeviceGetTotalEccErrors", lambda told: {"ecc_corrected": told}, (_CORRECTED, _SINCE_DRIVER_LOADED)),
        Query(
            "nvmlDeviceGetTotalEccErrors", lambda told: {"ecc_uncorrected": told}, (_UNCORRECTED, _SINCE_DRIVER_LOADED)
        ),
        Query("nvmlDeviceGetRemappedRows", _remapped),
        Query("nvmlDeviceGetPcieReplayCounter", lambda told: {"pcie_replays": told}),
    ]


class Questions:
    """Of one GPU, from one opening of the driver to the next."""

    def __init__(self, driver: Driver, handle: object, index: int, uuid: str) -> None:
        self._driver = driver
        self._handle = handle
        self._index = index
        self._uuid = uuid
        self._often = _often()
        self._seldom = _seldom()
        self._kept: Values = {}
        self._complaint: str | None = None
        self._anew_at = 0.0

    def sample(self) -> GpuSample:
        """Its `reason` is set where the GPU is there but answers no query at all."""
        values: Values = {}
        self._driver.begin()
        try:
            self._ask(self._often, values)
            now = time.monotonic()
            due = [query for query in self._seldom if query.due_at <= now]
            if due:
                self._ask_seldom(due)
        finally:
            self._driver.done()
        if not values:
            self._complaint = self._complaint or f"the GPU answers no query: {self._driver.last_error}"
            self._begin_anew(now)
            return GpuSample(self._index, self._uuid, reason=self._complaint)
        self._complaint = None
        return GpuSample(self._index, self._uuid, **values, **self._kept)

    def _begin_anew(self, now: float) -> None:
        """A GPU that answers nothing may be about to answer all: it is asked everything again, but not each second."""
        if now >= self._anew_at:
            self._anew_at = now + _SELDOM_S
            self._often, self._seldom = _often(), _seldom()

    def _ask(self, queries: list[Query], values: Values) -> None:
        unknown = []
        for query in queries:
            ask = query.ask = query.ask or self._driver.prepare(query.name, self._handle, *query.args)
            if (answer := ask()) is not None:
                values.update(query.read(answer))
            elif self._driver.unsupported:
                unknown.append(query)
        for query in unknown:
            self._replace(queries, query, values)

    def _replace(self, queries: list[Query], query: Query, values: Values) -> None:
        place = queries.index(query)
        queries[place : place + 1] = [] if query.instead is None else [query.instead]
        if query.instead is not None:
            instead = [query.instead]
            self._ask(instead, values)
            if not instead:
                queries.remove(query.instead)

    def _ask_seldom(self, due: Sequence[Query]) -> None:
        for query in due:
            asked, began = [query], time.monotonic()
            self._ask(asked, self._kept)
            took = time.monotonic() - began
            query.due_at = began + (_RARELY_S if took > _SLOW_S else _SELDOM_S)
            if not asked:
                self._seldom.remove(query)


def _memory(told: Answer) -> Values:
    return {"memory_used_bytes": told.used, "memory_reserved_bytes": told.reserved, "memory_total_bytes": told.total}


def _memory_v1(told: Answer) -> Values:
    """It counts the reserve as used, and does not tell it."""
    return {"memory_used_bytes": told.used, "memory_total_bytes": told.total}


def _reasons(told: int) -> Values:
    return {"clock_reasons_mask": told}


def _state(told: int) -> Values:
    return {} if told == _PERF_STATE_UNKNOWN else {"perf_state": f"P{told}"}


def _memory_temperature(told: Sequence[Answer]) -> Values:
    """Each value carries a return code of its own."""
    return {} if told[0].nvmlReturn else {"memory_temperature_c": told[0].value.uiVal}


def _remapped(told: Sequence[int]) -> Values:
    corrected, uncorrected, pending, failed = told
    return {"remapped_rows": corrected + uncorrected, "remap_pending": bool(pending), "remap_failed": bool(failed)}
