"""What starts take where nothing is known of this one: seconds of each phase, as recorded starts took them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import hypot

COMPILE_S = 50.0
"""The silent compilation before the first prefill graph, on an H200 with SGLang 0.5.16."""
_BIG_LOAD_S = 30.0
_MOST_SCALE = 6.0
_READ_BYTES_PER_S = (0.3e9, 1.5e9, 6e9)


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds: what is likely, and the least and the most that is."""

    low: float
    mid: float
    high: float

    def __add__(self, other: Span) -> Span:
        """One after the other: what is uncertain of each adds up as independent errors do."""
        mid = self.mid + other.mid
        low = mid - hypot(self.mid - self.low, other.mid - other.low)
        return Span(max(low, 0.0), mid, mid + hypot(self.high - self.mid, other.high - other.mid))

    def times(self, factor: float) -> Span:
        return Span(self.low * factor, self.mid * factor, self.high * factor)

    def after(self, elapsed_s: float) -> Span:
        """What is left after so long: never nothing, as what is late is likely to stay so for a while."""
        least = min(0.2 * elapsed_s, self.mid)
        low, mid, high = (max(value - elapsed_s, least) for value in (self.low, self.mid, self.high))
        return Span(low, mid, high)


NOTHING = Span(0.0, 0.0, 0.0)
_SECONDS = {
    "starting": Span(10, 25, 90),
    "dist_init": Span(0.2, 2, 30),
    "load_draft_weights": Span(0.2, 1, 60),
    "kv_cache": Span(0.3, 1, 15),
    "draft_kv_cache": Span(0, 0.5, 5),
    "compile_kernels": Span(5, 30, 180),
    "autotune": Span(5, 15, 120),
    "capture_graphs": Span(2, 12, 90),
    "capture_prefill": Span(8, 30, 75),
    "capture_decode": Span(1, 3, 30),
    "capture_verify": Span(1, 2, 30),
    "capture_draft_prefill": Span(1, 1.5, 20),
    "capture_draft_decode": Span(2, 5, 30),
    "capture_draft_verify": Span(1, 2, 20),
    "capture_draft_extend": Span(1, 1.5, 20),
    "http_start": Span(0.1, 0.5, 3),
    "warmup": Span(1, 6, 20),
}
_CACHED = {
    "compile_kernels": 0.3,
    "autotune": 0.3,
    "capture_verify": 0.5,
    "capture_draft_decode": 0.75,
    "capture_draft_extend": 0.8,
    "warmup": 0.5,
}
_GROWS = ("capture", "compile", "kv_cache", "warmup", "autotune")
_SGLANG = (
    "starting", "dist_init", "load_weights", "kv_cache", "capture_prefill", "capture_decode", "http_start", "warmup",
)  # fmt: skip
_EAGLE = (
    "starting", "dist_init", "load_weights", "load_draft_weights", "kv_cache", "draft_kv_cache", "capture_prefill",
    "capture_verify", "capture_draft_prefill", "capture_draft_decode", "capture_draft_extend", "http_start", "warmup",
)  # fmt: skip
_VLLM = ("starting", "dist_init", "load_weights", "compile_kernels", "kv_cache", "capture_graphs", "http_start")


def phases(engine: str, draft: bool, graphs: bool = True) -> tuple[str, ...]:
    """The phases that a start usually has, in their order; none of an engine that is not known."""
    names: tuple[str, ...]
    if engine == "vllm":
        names = _VLLM
    elif engine == "sglang":
        names = _EAGLE if draft else _SGLANG
    else:
        return ()
    return names if graphs else tuple(name for name in names if not name.startswith("capture"))


def seconds(name: str, load_s: float, cold: bool | None, draft: bool) -> Span:
    """`load_s` is how long the weights take: what follows takes longer for a large model, less than in proportion.

    Without speculation the first prefill graph was seen to compile for 50 s at each start, with it only while the
    cache of kernels was cold.
    """
    span = _SECONDS.get(name, NOTHING)
    if name == "capture_prefill" and cold is not None and (cold or draft):
        span = Span(10, 10 + COMPILE_S, 120) if cold else Span(6, 10, 30)
    elif name == "capture_prefill" and draft:
        span = Span(6, 10, 75)
    elif name == "warmup" and draft:
        span = Span(1, 3, 20)
    grows = any(part in name for part in _GROWS)
    return span.times(min(max(load_s / _BIG_LOAD_S, 1.0) ** 0.5, _MOST_SCALE)) if grows else span


def once_cached(spans: Mapping[str, float]) -> dict[str, float]:
    """What the phases of a first start take the next time, when the kernels compiled in it are in the caches."""
    factors = _CACHED if "capture_verify" in spans or "compile_kernels" in spans else {}
    return {name: value * factors.get(name, 1.0) for name, value in spans.items()}


def loading(weight_bytes: int | None) -> Span | None:
    """Reading the weights, before their bar has moved: from their size and the disks and caches that were seen."""
    if not weight_bytes:
        return None
    slow, usual, quick = _READ_BYTES_PER_S
    return Span(weight_bytes / quick, weight_bytes / usual, weight_bytes / slow)
