"""How the weights of a model are quantized, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def quantization(config: Mapping[str, Any], text: Mapping[str, Any], modelopt: Any = None) -> str | None:
    """INT4 (compressed-tensors), FP8 (fp8), MXFP4, …; None of weights as they were trained."""
    own = next((part.get(name) for part in (config, text) for name in ("quantization_config", "compression_config")
                if isinstance(part.get(name), dict)), None)  # fmt: skip
    if own is None:
        inner = modelopt.get("quantization") if isinstance(modelopt, dict) else None
        method = inner.get("quant_algo") if isinstance(inner, dict) else None
        return f"{method} (modelopt)" if method else None
    method = str(own.get("quant_method") or own.get("quant_algo") or "unknown")
    kind = _kind(own, method.lower())
    return kind if kind is not None and kind.lower() == method.lower() else f"{kind} ({method})" if kind else method


def _kind(own: Mapping[str, Any], method: str) -> str | None:
    algorithm = own.get("quant_algo")
    if isinstance(algorithm, str):
        return algorithm
    groups = own.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and isinstance(weights.get("num_bits"), int):
            return f"{'FP' if weights.get('type') == 'float' else 'INT'}{weights['num_bits']}"
    bits = (
        own.get("bits")
        or own.get("w_bit")
        or (4 if own.get("load_in_4bit") else 8 if own.get("load_in_8bit") else None)
    )
    if isinstance(bits, int) and not isinstance(bits, bool):
        return f"INT{bits}"
    return method.upper() if method in ("fp8", "mxfp4", "nvfp4", "mxfp8") else None
