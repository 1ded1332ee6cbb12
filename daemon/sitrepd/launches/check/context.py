"""Whether the context asked for is one that the model's config.json gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sitrepd.launches.check.draft import config_of, text_part
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.engines._flags import text

_ASKED = ("context_length", "max_model_len")
_GIVEN = ("max_sequence_length", "seq_length", "max_seq_len", "model_max_length", "max_position_embeddings")
_ALLOWS = {
    "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
    "vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN",
}


def check_context(subject: Subject, _: Look) -> Iterable[Check]:
    """Of a model whose positions are stretched nothing is said: by how much is the engine's to work out."""
    facts = subject.facts
    asked = next((int(one) for name in _ASKED if (one := text(facts.flags, name) or "").isdigit()), None)
    allows = _ALLOWS.get(facts.engine)
    if asked is None or allows is None or subject.env.get(allows, "").lower() in ("1", "true"):
        return
    config = config_of(facts.model_path, subject)
    given = _given(text_part(config)) if config is not None else None
    if given is None:
        return
    if asked <= given:
        yield Check(
            name="context", level="ok", text=f"The model's context of {given} tokens holds the {asked} asked for."
        )
        return
    flag = "--max-model-len" if facts.engine == "vllm" else "--context-length"
    yield Check(
        name="context",
        level="error",
        text=f"{flag} {asked} is more than the {given} tokens of the model's config.json.",
        fix=f"Write {flag} {given}, or set {allows}=1 if the model really can.",
    )


def _given(config: Mapping[str, Any]) -> int | None:
    stretched = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = stretched.get("rope_type") or stretched.get("type") if isinstance(stretched, Mapping) else "unknown"
    if kind not in (None, "default"):
        return None
    sizes = [size for name in _GIVEN if isinstance(size := config.get(name), int) and not isinstance(size, bool)]
    return max(sizes) if sizes and max(sizes) > 0 else None
