"""The wording of SGLang's log, 0.4.0 to 0.5.23: numbers taken out of single messages, without any memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sitrepd.launches.engines._lines import Bar, gib_to_bytes
from sitrepd.launches.engines.base import Throughput

LOAD_PHASES = ("load_weights", "load_draft_weights")
CAPTURE_PHASES = (
    "capture_prefill",
    "capture_decode",
    "capture_verify",
    "capture_graphs",
    "capture_draft_prefill",
    "capture_draft_decode",
    "capture_draft_verify",
    "capture_draft_extend",
)
WARNINGS = (
    ("speculative_num_draft_tokens is adjusted", "draft_tokens_adjusted"),
    ("Max running requests is reset", "max_running_requests_reset"),
    ("is larger than the profiled value", "max_total_tokens_reduced"),
    ("Cuda graph is disabled", "graphs_disabled"),
    ("CUDA graph because", "graphs_disabled"),
    ("Overlap schedule", "overlap_schedule_off"),
    ("Health check failed", "health_check_failed"),
    ("retrying (try=5, timeout=", "rendezvous_unreached"),  # earlier ones are usual where another node is slower
)
_CHANGED = re.compile(
    r"\b(?:is|are|was|were|has been|have been) (?:automatically )?"
    r"(?:adjusted|reset|overridden|overwritten|ignored|changed|reduced|limited|capped)\b"
)
_DEPRECATED_FLAG = re.compile(r"--[a-z][\w-]*'?,? (?:is|are|will be|has been) (?:\w+ )?(?:deprecated|removed)")

_ELAPSED = re.compile(r"elapsed[=:] ?(-?\d+(?:\.\d+)?) s")
_AVAILABLE = re.compile(r"avail(?:able)?[ _](?:gpu_|cpu_)?mem=(-?\d+(?:\.\d+)?) GB")
_USED = re.compile(r"mem usage=(-?\d+(?:\.\d+)?) GB")
_CAPTURE = re.compile(r"Capture (?P<what>(?:[\w/-]+ )*?)(?:(?i:cuda|cpu|npu) graph )?(?P<edge>begin|end)\b")
_KV_TOKENS = re.compile(r"#tokens: (\d+)")
_KV_SIZE = re.compile(r"\b(?:K|V|KV|Indexer) size: (\d+(?:\.\d+)?) GB")
_KV_DTYPE = re.compile(r"dtype: ([\w.]+)")
_WORD = re.compile(r"\b(type|quant|dtype|backend)=([^\s,]+?)[.,]?(?:\s|$)")
_COUNTS = re.compile(r"\b(\w+)=(-?\d+(?:\.\d+)?)(?= GB|,|\s|$)")
_TIMES = re.compile(r"(\w+)=(?:\{([^}]*)\}|(-?\d+(?:\.\d+)?))")
_URL = re.compile(r"running on https?://(\[[^\]]+\]|[^:\s/]+):(\d+)")
_BOUND = re.compile(r"\('([^']*)', (\d+)")
_PORT = re.compile(r"\bport[ :=]+(\d+)", re.IGNORECASE)

_CAPTURE_NAMES = {
    "target prefill": "capture_prefill",
    "target decode": "capture_decode",
    "target verify": "capture_verify",
    "draft prefill": "capture_draft_prefill",
    "draft decode": "capture_draft_decode",
    "draft verify": "capture_draft_verify",
    "draft extend": "capture_draft_extend",
    "single-cg draft extend": "capture_draft_extend",
    "draft": "capture_draft_decode",
    "piecewise": "capture_prefill",
    "prefill": "capture_prefill",
    "decode": "capture_decode",
    "": "capture_graphs",
}
_BATCH_FIELDS: dict[str, tuple[str, type]] = {
    "#running-req": ("running", int),
    "#queue-req": ("queued", int),
    "#token": ("tokens", int),
    "#full token": ("tokens", int),
    "token usage": ("token_usage", float),
    "full token usage": ("token_usage", float),
    "gen throughput (token/s)": ("gen_tok_s", float),
    "input throughput (token/s)": ("input_tok_s", float),
    "accept len": ("accept_len", float),
    "accept rate": ("accept_rate", float),
    "#new-token": ("new_tokens", int),
    "#cached-token": ("cached_tokens", int),
}


def elapsed_s(message: str) -> float | None:
    found = _ELAPSED.search(message)
    return float(found[1]) if found else None


def available_bytes(message: str) -> int | None:
    found = _AVAILABLE.search(message)
    return gib_to_bytes(found[1]) if found else None


def used_bytes(message: str) -> int | None:
    found = _USED.search(message)
    return gib_to_bytes(found[1]) if found else None


def words(message: str) -> dict[str, str]:
    """The values of type=, quant=, dtype= and backend=."""
    return dict(_WORD.findall(message))


def capture(message: str) -> tuple[str, str] | None:
    """The phase and "begin" or "end" of a line about graphs; a wording never seen before is `capture_graphs`."""
    found = _CAPTURE.match(message)
    if found is None:
        return None
    what = found["what"].strip().lower()
    other = "capture_draft_extend" if "draft" in what else "capture_graphs"
    return _CAPTURE_NAMES.get(what, other), found["edge"]


def kv_cache(message: str) -> tuple[int | None, int, str]:
    """Tokens, bytes (K and V together) and dtype of one pool."""
    tokens = _KV_TOKENS.search(message)
    dtype = _KV_DTYPE.search(message)
    size = sum(gib_to_bytes(size) for size in _KV_SIZE.findall(message))
    return int(tokens[1]) if tokens else None, size, dtype[1] if dtype else ""


def counts(message: str) -> Iterator[tuple[str, int, str]]:
    """Name, value and unit from `max_total_num_tokens=…, max_running_requests=…, available_gpu_mem=… GB`."""
    for name, value in _COUNTS.findall(message):
        if name in ("available_gpu_mem", "available_cpu_mem"):
            yield "available_bytes", gib_to_bytes(value), "bytes"
        elif value.lstrip("-").isdigit():
            yield name, int(value), "requests" if name.endswith("requests") else "tokens"


def timings(message: str) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for name, nested, value in _TIMES.findall(message):
        if value:
            seconds[name] = float(value)
        else:
            seconds |= {f"{name}.{inner}": float(number) for inner, _, number in _TIMES.findall(nested) if number}
    return seconds


_UNBOUND = ("ddress already in use", "[Errno 98]", "attempting to bind on address")


def bound_to(message: str) -> tuple[str, int] | None:
    found = _URL.search(message)
    return (found[1].strip("[]"), int(found[2])) if found else None


def cannot_listen(message: str) -> bool:
    """Whether the address was refused: taken, not of this machine, or not this user's to have."""
    return any(words in message for words in _UNBOUND)


def taken_port(message: str) -> int | None:
    found = _BOUND.search(message)
    if found:
        return int(found[2])
    found = _PORT.search(message)
    return int(found[1]) if found else None


def warning(message: str) -> str:
    """The short name of what SGLang changed of what was asked, or "" for all other messages."""
    for text, what in WARNINGS:
        if text in message:
            return what
    if "--" in message and _DEPRECATED_FLAG.search(message):
        return "deprecated_flag"
    return "setting_changed" if _CHANGED.search(message) else ""


def batch(message: str, at: datetime, rank: str) -> Throughput:
    """A `Prefill batch` or `Decode batch` line; keys that are not known are kept in `other`."""
    values: dict[str, Any] = {}
    other: dict[str, float] = {}
    kind = "decode" if message.startswith("Decode") else "prefill"
    for part in message[message.find("#") :].split(", "):
        key, _, text = part.rpartition(": ")
        known = _BATCH_FIELDS.get(key)
        try:
            if known:
                values.setdefault(known[0], known[1](text))
            elif key.endswith(" graph"):
                values["graph"] = text == "True"
            elif key:
                other[key] = float(text)
        except ValueError:
            continue
    return Throughput(at=at, rank=rank, batch=kind, other=other, **values)  # type: ignore[arg-type]


def bar_phases(bar: Bar) -> tuple[tuple[str, ...], str]:
    """To which phases a bar may belong, and what it counts."""
    label = bar.label.lower()
    if "deepgemm" in label:
        return ("autotune",), "kernels"
    if "instanttensor" in label or "runai" in label:
        return LOAD_PHASES, "tensors"
    if "shard" in label or "safetensor" in label or ("loading" in label and "checkpoint" in label):
        return LOAD_PHASES, "shards"
    if not label or "captur" in label or "compiling" in label:
        return CAPTURE_PHASES, "graphs"
    return (), ""


def bar_detail(bar: Bar) -> str:
    """`bs=8` or `num_tokens=8192`, what is being captured."""
    inside = bar.label.rpartition("(")[2]
    return next((word for word in inside.rstrip(")").split() if word.startswith(("bs=", "num_tokens="))), "")
