"""Names for configurations: the speculative settings as people say them, other settings as `name=value`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

ALGORITHM = "speculative_algorithm"
STEPS = "speculative_num_steps"
TOPK = "speculative_eagle_topk"
DRAFT_TOKENS = "speculative_num_draft_tokens"
_SPECULATIVE = (ALGORITHM, STEPS, TOPK, DRAFT_TOKENS)


def config_label(config: Mapping[str, Any], keys: Iterable[str] | None = None) -> str:
    """A configuration in words, by `keys` or else by its speculative settings: `EAGLE3, 2 steps`; "" if it has none."""
    wanted = list(keys) if keys is not None else _telling(config)
    if ALGORITHM in config and config[ALGORITHM] is None:
        wanted = [key for key in wanted if key == ALGORITHM or not key.startswith("speculative_")]
    return ", ".join(_part(key, config[key]) for key in wanted if key in config)


def distinguishing_keys(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Settings that tell these configurations apart, speculative ones first, and none that the ones before it imply."""
    names = {key for config in configs for key in config}
    order = [key for key in _SPECULATIVE if key in names] + sorted(names.difference(_SPECULATIVE))
    keys: list[str] = []
    classes = [0] * len(configs)  # which configurations the keys so far do not tell apart
    for key in order:
        if max(classes, default=0) + 1 >= len(configs):
            break
        numbers: dict[tuple[int, str], int] = {}
        told = [repr(config[key]) if key in config else "" for config in configs]
        finer = [numbers.setdefault(place, len(numbers)) for place in zip(classes, told, strict=True)]
        if finer != classes:
            keys.append(key)
            classes = finer
    return keys


def _telling(config: Mapping[str, Any]) -> list[str]:
    keys = [key for key in _SPECULATIVE if key in config and (config[key] is not None or key == ALGORITHM)]
    steps, topk, drafts = (config.get(key) for key in (STEPS, TOPK, DRAFT_TOKENS))
    if topk == 1:
        keys.remove(TOPK)
        if isinstance(steps, int) and drafts == steps + 1:  # SGLang sets it so when topk is 1
            keys.remove(DRAFT_TOKENS)
    return keys


def _part(key: str, value: Any) -> str:
    if key == ALGORITHM:
        return "no speculation" if value is None else str(value)
    if key == STEPS:
        return "1 step" if value == 1 else f"{value} steps"
    if key == TOPK:
        return f"topk {value}"
    if key == DRAFT_TOKENS:
        return f"{value} draft tokens"
    return f"{key}={value}"
