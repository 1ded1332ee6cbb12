"""What a server counts over its life, read before and after a run: the difference belongs to the run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from http.client import HTTPConnection, HTTPException
from typing import Any

from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.running.target import Target

_TIMEOUT_S = 5.0
_MOST_BYTES = 16 << 20
_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)(?:\{.*\})? ([-+\d.eE]+)$", re.MULTILINE)
# Counters of SGLang and of vLLM, by what they count.
_COUNTERS = {
    "generated": ("sglang:generation_tokens_total", "vllm:generation_tokens_total"),
    "prompted": ("sglang:prompt_tokens_total", "vllm:prompt_tokens_total"),
    "verified": ("sglang:spec_verify_calls_total", "vllm:spec_decode_num_drafts_total"),
    "cached": ("sglang:cached_tokens_total", "vllm:prefix_cache_hits_total"),
    "looked_up": ("vllm:prefix_cache_queries_total",),
    "drafted": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted": ("vllm:spec_decode_num_accepted_tokens_total",),
    "requests": ("sglang:num_requests_total", "vllm:request_success_total"),
    "retracted": ("sglang:num_retracted_requests_total", "vllm:num_preemptions_total"),
}


@dataclass(frozen=True)
class Reading:
    """`counted` is by the names above; `log` is the size of the server's log."""

    counted: Mapping[str, float] = field(default_factory=dict)
    log: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"counted": dict(self.counted), "log": self.log}

    @classmethod
    def from_json(cls, told: Mapping[str, Any] | None) -> Reading:
        told = told or {}
        return cls(told.get("counted") or {}, told.get("log"))


def read(target: Target, log_path: str | None) -> Reading:
    """`/metrics` generates nothing; a server that was started without it answers 404, and its log is left."""
    text = _get(target, "/metrics")
    return Reading(parse(text) if text else {}, _size(log_path))


def parse(text: str) -> dict[str, float]:
    """Sums over all labels, of the counters that are of use."""
    wanted = {name: key for key, names in _COUNTERS.items() for name in names}
    found: dict[str, float] = {}
    for name, value in _LINE.findall(text):
        key = wanted.get(name)
        if key is not None:
            found[key] = found.get(key, 0.0) + float(value)
    return found


def between(before: Reading, after: Reading) -> list[Metric]:
    """Accept length, accept rate and cache hits of the time between; none where the server was started anew."""
    if not before.counted:
        return []
    grown = {key: value - before.counted.get(key, 0.0) for key, value in after.counted.items()}
    if any(value < 0 for value in grown.values()):
        return []
    length = _accept_length(grown)
    found = [_metric("accept_length", length)] if length is not None else []
    if grown.get("drafted", 0.0) > 0:
        found.append(_metric("accept_rate", grown.get("accepted", 0.0) / grown["drafted"]))
    asked = grown.get("looked_up") or grown.get("prompted") or 0.0
    if asked > 0:
        found.append(_metric("cache_hit_rate", min(1.0, grown.get("cached", 0.0) / asked)))
    if grown.get("retracted", 0.0) > 0:
        found.append(Metric("retracted", Decimal(round(grown["retracted"])), "requests", "lower"))
    return found


def _accept_length(grown: Mapping[str, float]) -> float | None:
    """Tokens that a step which verified yielded, its own one included.

    SGLang counts what requests that have ended were given, and the first token of each (and of each time that it was
    retracted and began anew) is the prefill's and no step's: 8 tokens in 7 steps of one request are 1.0. What its
    client writes as accept length is of the whole life of the server with all warm-ups, so this is surer for a run.
    """
    verified = grown.get("verified", 0.0)
    if verified <= 0:
        return None
    if "accepted" in grown:
        return 1 + grown["accepted"] / verified
    if not grown.get("generated") or not grown.get("requests"):
        return None
    prefilled = grown["requests"] + grown.get("retracted", 0.0)
    return max(1.0, (grown["generated"] - prefilled) / verified)


def from_lines(lines: Iterable[Any]) -> list[Metric]:
    """The same from the batch lines of a server's log: tokens by the steps that verified them, and cached by all."""
    tokens = steps = accepted = weight = 0.0
    new = cached = 0
    for one in lines:
        if one.batch == "decode" and one.accept_len:
            made = one.gen_tok_s or 1.0
            tokens, steps = tokens + made, steps + made / one.accept_len
            if one.accept_rate is not None:
                accepted, weight = accepted + one.accept_rate * made, weight + made
        if one.batch == "prefill" and one.new_tokens is not None:
            new, cached = new + one.new_tokens, cached + (one.cached_tokens or 0)
    found = [_metric("accept_length", tokens / steps)] if steps else []
    if weight:
        found.append(_metric("accept_rate", accepted / weight))
    if new + cached:
        found.append(_metric("cache_hit_rate", cached / (new + cached)))
    return found


def _metric(name: str, value: float) -> Metric:
    return metric(name, Decimal(f"{value:.4f}"))


def flush(target: Target) -> None:
    """Empty SGLang's prefix cache; a server that works on something refuses, and then it stays."""
    _get(target, "/flush_cache", "POST")


def _get(target: Target, path: str, method: str = "GET") -> str | None:
    """The text of a 200; None for anything else. No proxy stands between this machine and itself."""
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    try:
        connection = HTTPConnection(target.host, target.port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            body = answer.read(_MOST_BYTES)
            return body.decode("utf-8", "replace") if answer.status == 200 else None
        finally:
            connection.close()
    except (OSError, HTTPException):
        return None


def _size(path: str | None) -> int | None:
    try:
        return os.stat(path).st_size if path else None
    except OSError:
        return None
