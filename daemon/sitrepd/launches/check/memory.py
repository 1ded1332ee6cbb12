"""Weights and KV cache against the memory that is free on the GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sitrepd.claims.overlap import ranges
from sitrepd.launches.check.draft import text_part
from sitrepd.launches.check.folder import Folders, find
from sitrepd.launches.check.model import GIB, Check, Look, Subject, gib
from sitrepd.launches.engines._flags import text, whole
from sitrepd.launches.engines.base import CommandFacts

_USUAL_FRACTION = 0.88
_MOST_FRACTION = 0.95


@dataclass(frozen=True)
class Estimate:
    """Bytes of one GPU; `fraction` is SGLang's own guess where `told` is false."""

    free: int
    weights: int
    fraction: float
    told: bool

    @property
    def cache(self) -> int:
        """What SGLang leaves for the KV cache: its share of the free memory, less the weights."""
        return int(self.free * self.fraction) - self.weights


def check_memory(subject: Subject, look: Look) -> Iterable[Check]:
    facts = subject.facts
    if not subject.words or not subject.gpus.used or text(facts.flags, "load_format") == "dummy":
        return
    free = free_memory(look, subject.gpus.used)
    weights = weights_of_a_gpu(subject, look.folders)
    if not free or not weights:
        return
    told = facts.mem_fraction
    one = Estimate(min(free.values()), weights, told or _USUAL_FRACTION, told is not None)
    target = find(facts.model_path or "", subject.cwd, subject.env)
    config = look.folders.read(target).config if target else None
    yield judged(one, facts, config, subject.gpus.used)


def free_memory(look: Look, gpus: Iterable[int]) -> dict[int, int]:
    """Bytes by GPU, of those that tell it."""
    wanted = set(gpus)
    found = {}
    for sample in look.hardware.samples:
        total, used = sample.memory_total_bytes, sample.memory_used_bytes
        if sample.index in wanted and total is not None and used is not None:
            found[sample.index] = total - used - (sample.memory_reserved_bytes or 0)
    return found


def weights_of_a_gpu(subject: Subject, folders: Folders) -> int:
    """Bytes of target and draft on one GPU; 0 where the folder tells nothing, or weights are quantized on loading."""
    facts = subject.facts
    path = find(facts.model_path, subject.cwd, subject.env) if facts.model_path else None
    target = folders.read(path) if path else None
    if target is None or not target.weight_bytes or any(one.problem for one in target.shards.values()):
        return 0
    if text(facts.flags, "quantization") and not text_part(target.config or {}).get("quantization_config"):
        return 0
    share = target.weight_bytes // (facts.tp_size * facts.pp_size)
    share -= int((whole(facts.flags, "cpu_offload_gb") or 0) * GIB)
    drafted = find(facts.draft_model_path, subject.cwd, subject.env) if facts.draft_model_path else None
    return max(0, share) + (folders.read(drafted).weight_bytes // facts.tp_size if drafted and drafted != path else 0)


def judged(one: Estimate, facts: CommandFacts, config: Mapping[str, Any] | None, gpus: Iterable[int]) -> Check:
    listed = ranges(gpus)
    have = f"about {gib(one.weights)} of weights for each of GPU {listed}, where {gib(one.free)} are free"
    if one.weights >= one.free:
        fix = "Free the GPUs, raise --tp-size, or take a smaller or quantized model."
        return Check(name="memory", level="error", text=f"The model does not fit: {have}.", fix=fix)
    share = f"--mem-fraction-static {one.fraction:g}" if one.told else f"SGLang's usual share of {one.fraction:g}"
    if one.cache <= 0:
        least = math.ceil((one.weights / one.free + 0.03) * 100) / 100
        fix = (
            f"Write --mem-fraction-static {least:g}."
            if least <= _MOST_FRACTION
            else "Free the GPUs or raise --tp-size."
        )
        level = "error" if one.told else "warning"
        text_ = f"No memory is left for the KV cache: {have}, and {share} makes {gib(one.free * one.fraction)} of them."
        return Check(name="memory", level=level, text=text_, fix=fix)
    each = kv_bytes_per_token(config or {}, facts)
    tokens = one.cache // each if each else None
    room = f"about {gib(one.cache)} are left for the KV cache"
    room += f", about {tokens} tokens" if tokens else ""
    asked = whole(facts.flags, "context_length")
    if tokens is not None and asked and tokens < asked:
        short = f"{have}; {room}, less than the --context-length of {asked}."
        return Check(name="memory", level="warning", text=f"{short[:1].upper()}{short[1:]}", fix=_more_room(facts))
    return Check(name="memory", level="ok", text=f"{have[:1].upper()}{have[1:]}; with {share}, {room}.")


def _more_room(facts: CommandFacts) -> str:
    wider = "" if str(facts.flags.get("kv_cache_dtype", "")).startswith("fp8") else ", or --kv-cache-dtype fp8_e4m3"
    return f"Shorten --context-length, or raise --mem-fraction-static or --tp-size{wider}."


def kv_bytes_per_token(config: Mapping[str, Any], facts: CommandFacts) -> int | None:
    """On one GPU, of the target alone: multi-head latent attention keeps one latent that all ranks hold."""
    text_config = text_part(config)
    layers = text_config.get("num_hidden_layers")
    wide = 1 if str(facts.flags.get("kv_cache_dtype", "")).startswith("fp8") else 2
    if not isinstance(layers, int):
        return None
    layers = max(1, layers // facts.pp_size)
    if isinstance(text_config.get("kv_lora_rank"), int):
        return int(layers * (text_config["kv_lora_rank"] + (text_config.get("qk_rope_head_dim") or 0)) * wide)
    heads = text_config.get("num_attention_heads")
    kept = text_config.get("num_key_value_heads") or heads
    hidden = text_config.get("hidden_size")
    if not isinstance(heads, int) or not isinstance(kept, int) or not isinstance(hidden, int) or not heads:
        return None
    width = text_config.get("head_dim") or hidden // heads
    return int(2 * layers * max(1, kept // facts.tp_size) * width * wide)
