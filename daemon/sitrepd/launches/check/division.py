"""Whether the model's heads can be divided between the ranks, from its config.json."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sitrepd.launches.check.draft import config_of, text_part
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.engines._flags import text

_SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)
_OTHERWISE = ("attn_cp_size", "attention_context_parallel_size")


def check_division(subject: Subject, _: Look) -> Iterable[Check]:
    """On a processor SGLang fills heads up to what divides, and with context parallelism others share them."""
    facts = subject.facts
    config = config_of(facts.model_path, subject) if subject.is_server and facts.tp_size > 1 else None
    if config is None or text(facts.flags, "device") == "cpu" or any(name in facts.flags for name in _OTHERWISE):
        return
    replicas = facts.dp_size if "enable_dp_attention" in facts.flags else 1
    ranks = facts.tp_size // max(1, replicas)
    wrong = undivided(text_part(config), ranks)
    if not wrong:
        yield Check(name="division", level="ok", text=f"The heads of the model divide between {ranks} ranks.")
        return
    sizes = [size for size in _SIZES if not undivided(text_part(config), size)]
    flag = "--tensor-parallel-size" if facts.engine == "vllm" else "--tp-size"
    told = " or ".join(str(size * replicas) for size in sizes)
    yield Check(
        name="division",
        level="error",
        text=f"{' and '.join(wrong)}, so that the model cannot be split between {ranks} ranks.",
        fix=f"Write {flag} {told}." if told else None,
    )


def undivided(config: Mapping[str, Any], ranks: int) -> list[str]:
    """What does not divide; fewer key-value heads than ranks are copied, and with latent attention there are none."""
    heads, kept = _number(config, "num_attention_heads"), _number(config, "num_key_value_heads")
    wrong = [f"{heads} attention heads do not divide by {ranks}"] if heads and heads % ranks else []
    if kept and "kv_lora_rank" not in config and kept % ranks and ranks % kept:
        wrong.append(f"{kept} key-value heads and {ranks} ranks do not divide")
    return wrong


def _number(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
