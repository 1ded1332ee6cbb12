"""What an engine made of the flags that it was given: asked for, changed, chosen by itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sitrepd.redact import is_secret_name

# Flags by another name than the setting that they set.
SETTING = {
    "tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size",
    "pp": "pp_size", "pipeline_parallel_size": "pp_size", "ep": "ep_size", "expert_parallel_size": "ep_size",
    "model": "model_path", "speculative_algo": "speculative_algorithm",
    "speculative_draft_model": "speculative_draft_model_path", "enable_ep_moe": "ep_size",
    "cuda_graph_max_bs": "cuda_graph_max_bs_decode", "cuda_graph_bs": "cuda_graph_bs_decode",
}  # fmt: skip
_UNSET: tuple[Any, ...] = (None, "auto")
# Settings whose default leaves the choice to the engine, in the order in which they matter to a reader.
_ITS_CHOICE: Mapping[str, tuple[Any, ...]] = dict.fromkeys(
    (
        "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens", "max_running_requests",
        "mem_fraction_static", "chunked_prefill_size", "max_total_tokens", "context_length", "cuda_graph_max_bs",
        "cuda_graph_max_bs_decode", "quantization", "kv_cache_dtype", "attention_backend", "prefill_attention_backend",
        "decode_attention_backend", "sampling_backend", "moe_runner_backend", "mm_attention_backend",
    ),
    _UNSET,
) | {
    "page_size": (None, 1),
    "schedule_policy": ("fcfs",),
    "disable_overlap_schedule": (False,),
    "disable_radix_cache": (False,),
    "disable_cuda_graph": (False,),
    "disable_custom_all_reduce": (False,),
    "enable_mixed_chunk": (False,),
    "enable_dp_attention": (False,),
}  # fmt: skip

Kind = Literal["asked", "changed", "chosen", "unknown"]


@dataclass(frozen=True, slots=True)
class Setting:
    """`asked` and `effective` of one setting; unknown where the engine told of no such setting."""

    name: str
    kind: Kind
    asked: Any = None
    effective: Any = None


def settings_of(flags: Mapping[str, Any], settings: Mapping[str, Any]) -> list[Setting]:
    """In the order of the flags, then what the engine chose; without settings, what was asked for alone."""
    found: dict[str, Setting] = {}
    for flag, asked in flags.items():
        if is_secret_name(flag):
            continue
        name = flag if flag in settings else SETTING.get(flag, flag)
        found[name] = _judged(name, asked, settings)
    for name, usual in _ITS_CHOICE.items():
        if name in settings and name not in found and settings[name] not in usual:
            found[name] = Setting(name, "chosen", None, settings[name])
    return list(found.values())


def _judged(name: str, asked: Any, settings: Mapping[str, Any]) -> Setting:
    if name not in settings:
        return Setting(name, "unknown", asked)
    effective = settings[name]
    return Setting(name, "asked" if same(asked, effective) else "changed", asked, effective)


def same(asked: Any, effective: Any) -> bool:
    """Whether a flag's words say the value."""
    if isinstance(asked, list) and isinstance(effective, list | tuple):
        return len(asked) == len(effective) and all(map(same, asked, effective))
    if isinstance(asked, bool) or isinstance(effective, bool):
        return str(asked).lower() == str(effective).lower()
    if isinstance(asked, str) and isinstance(effective, list | tuple) and len(effective) == 1:
        return same(asked, effective[0])
    if isinstance(effective, Mapping):
        return bool(_json(asked) == effective)
    if isinstance(effective, int | float):
        try:
            return float(asked) == float(effective)
        except (TypeError, ValueError):
            return False
    if str(asked) == str(effective):
        return True
    told = _json(asked)
    return told is not None and told == _json(effective)


def _json(text: Any) -> Any:
    """The value of a JSON text that is an object or a list, else None."""
    try:
        value = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return None
    return value if isinstance(value, dict | list) else None
