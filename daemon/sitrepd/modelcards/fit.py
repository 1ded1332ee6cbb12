"""How many tokens of KV cache fit on a GPU, by SGLang's rule, and why an engine then reported others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sitrepd.modelcards.card import KV_BYTES, groups_of, kv_bytes
from sitrepd.modelcards.layers import KvGroup

SWA_RATIO = 0.8
"""SGLang's swa_full_tokens_ratio: tokens of the pool of layers with a window, for one of the other pool."""
_CLOSE = 0.005


@dataclass(frozen=True)
class Asked:
    """`free_bytes` of one GPU before the weights were loaded; `fraction` of them is for weights and cache."""

    free_bytes: int
    fraction: float
    tp: int = 1
    kv_type: str = "bf16"


@dataclass(frozen=True)
class Fit:
    """One GPU: free × fraction − weights = room; room ÷ bytes of a token = tokens."""

    weight_bytes: int
    draft_weight_bytes: int
    room_bytes: int
    token_bytes: float
    tokens: int


@dataclass(frozen=True)
class Why:
    """One thing that is other than the card supposes; `tokens` is what that alone changes."""

    what: str
    supposed: float
    reported: float
    unit: str
    tokens: int


@dataclass(frozen=True)
class Reported:
    """What an engine printed of one rank; None where it did not."""

    tokens: int
    weight_bytes: int | None = None
    draft_weight_bytes: int | None = None
    kv_bytes: int | None = None
    draft_kv_bytes: int | None = None


def token_bytes(details: Mapping[str, Any], kind: str, tp: int) -> float:
    """What one token takes of a rank's room; where some layers have a window, these hold fewer tokens."""
    groups = groups_of(details)
    windowed = [group for group in groups if group.window]
    plain = [group for group in groups if not group.window]
    if not windowed or not plain:
        return kv_bytes(groups, kind, tp)
    return kv_bytes(plain, kind, tp) + SWA_RATIO * kv_bytes(windowed, kind, tp)


def fit(target: Mapping[str, Any], weights: int, asked: Asked, draft: Mapping[str, Any] | None = None) -> Fit:
    """`weights` are the bytes of all ranks; both are details of cards."""
    own = weights // asked.tp
    drafted = int(((draft or {}).get("weights") or {}).get("bytes") or 0) // asked.tp
    each = token_bytes(target, asked.kv_type, asked.tp)
    each += token_bytes(draft, asked.kv_type, asked.tp) if draft else 0
    room = int(asked.free_bytes * asked.fraction) - own - drafted
    return Fit(own, drafted, room, each, max(0, int(room / each)) if each else 0)


def why(found: Fit, told: Reported) -> list[Why]:
    """What the reported figure differs by, one cause after the other; the last is what remains."""
    causes: list[Why] = []
    left = told.tokens - found.tokens
    for what, supposed, reported in (
        ("weights", found.weight_bytes, told.weight_bytes),
        ("draft's weights", found.draft_weight_bytes, told.draft_weight_bytes),
    ):
        if reported is not None and found.token_bytes and reported != supposed:
            effect = round((supposed - reported) / found.token_bytes)
            causes.append(Why(what, supposed, reported, "bytes", effect))
            left -= effect
    kept = (told.kv_bytes or 0) + (told.draft_kv_bytes or 0)
    if kept and told.tokens:
        each = kept / told.tokens
        if found.token_bytes and abs(each / found.token_bytes - 1) > _CLOSE:
            effect = round(found.room_bytes / each - found.room_bytes / found.token_bytes)
            causes.append(Why("KV cache of a token", found.token_bytes, round(each, 1), "bytes", effect))
            left -= effect
    if left:
        unexplained = round(-left * found.token_bytes)
        causes.append(Why("memory that the engine held back or used otherwise", 0, unexplained, "bytes", left))
    return causes


def kv_type(told: Any, dtype: Any = None) -> str:
    """The KV type that an engine's `kv_cache_dtype` means; `auto` is that of the weights."""
    name = str(told or "auto").lower()
    if name == "auto":
        name = str(dtype or "bfloat16").lower()
    for known, meanings in (("fp8", ("fp8", "float8", "e4m3", "e5m2")), ("fp4", ("fp4", "e2m1")),
                            ("fp32", ("float32", "fp32")), ("fp16", ("float16", "fp16", "half"))):  # fmt: skip
        if any(word in name for word in meanings if word != "float16" or "bfloat16" not in name):
            return known
    return "bf16"


__all__: Sequence[str] = ("KV_BYTES", "Asked", "Fit", "KvGroup", "Reported", "Why", "fit", "kv_type", "why")
