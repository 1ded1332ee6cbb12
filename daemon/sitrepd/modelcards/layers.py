"""How many of the layers of a model attend how: to everything, within a window, by a latent, or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_ALTERNATING = {"gemma2": 2, "gpt_oss": 2}
_PATTERN = {"gemma3": 6, "gemma3_text": 6, "cohere2": 4}
_NONE = ("linear_attention", "mamba", "recurrent", "conv")
# What transformers assumes where a config leaves it out.
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "gemma3_text": {
        "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262208,
        "tie_word_embeddings": True, "sliding_window": 4096, "intermediate_size": 9216, "num_hidden_layers": 26,
    },
    "gemma2": {"tie_word_embeddings": True, "sliding_window": 4096},
    "gemma": {"tie_word_embeddings": True},
    "gpt_oss": {"head_dim": 64, "sliding_window": 128, "attention_bias": True},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen2": {"attention_bias": True},
    "qwen2_moe": {"attention_bias": True},
}  # fmt: skip


@dataclass(frozen=True)
class KvGroup:
    """Layers that keep the same for a token: `heads` of K and V elements; a latent is kept whole by every rank."""

    layers: int
    heads: int
    k_elements: int
    v_elements: int
    window: int | None = None
    latent: bool = False
    extra_bytes: int = 0
    """Of a layer and token, whatever the KV type: the index keys of sparse attention."""

    def elements(self, tp: int = 1) -> int:
        """Of one layer and token, on one rank; a head is not divided."""
        heads = self.heads if self.latent else max(1, -(-self.heads // tp))
        return heads * (self.k_elements + self.v_elements)


def text_part(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's own part, with what transformers assumes where it is silent."""
    own = next(
        (config[n] for n in ("text_config", "language_config", "llm_config") if isinstance(config.get(n), dict)), config
    )
    kind = str(own.get("model_type") or config.get("model_type") or "")
    told = {name: value for name, value in own.items() if value is not None}
    return {**DEFAULTS.get(kind, {}), **told, "model_type": kind}


def whole(config: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a whole number above zero."""
    found = (config.get(name) for name in names)
    return next((value for value in found if type(value) is int and value > 0), None)


def kinds(text: Mapping[str, Any]) -> list[str]:
    """One of full, sliding, none for each layer."""
    count = whole(text, "num_hidden_layers", "n_layer", "num_layers") or 0
    told = text.get("layer_types")
    if isinstance(told, list) and len(told) >= count:
        return [_kind(str(one)) for one in told[:count]]
    interval = whole(text, "full_attention_interval")
    if interval and whole(text, "linear_num_value_heads"):
        return ["full" if (at + 1) % interval == 0 else "none" for at in range(count)]
    kind = str(text.get("model_type"))
    if not whole(text, "sliding_window") or text.get("use_sliding_window") is False:
        return ["full"] * count
    if kind in _ALTERNATING:
        return ["sliding" if at % 2 == 0 else "full" for at in range(count)]
    pattern = whole(text, "sliding_window_pattern", "_sliding_window_pattern") or _PATTERN.get(kind)
    if pattern:
        return ["full" if (at + 1) % pattern == 0 else "sliding" for at in range(count)]
    if text.get("use_sliding_window"):
        first = whole(text, "max_window_layers") or 0
        return ["full" if at < first else "sliding" for at in range(count)]
    return ["sliding"] * count


def _kind(told: str) -> str:
    if told.startswith(_NONE):
        return "none"
    return "sliding" if "sliding" in told or "chunked" in told else "full"


def kv_groups(text: Mapping[str, Any]) -> list[KvGroup]:
    """What is kept of a token; none where the config does not tell enough."""
    every = kinds(text)
    full, sliding = every.count("full"), every.count("sliding")
    window = whole(text, "sliding_window", "attention_chunk_size")
    context = whole(text, "max_position_embeddings")
    if window and context and window >= context:
        full, sliding = full + sliding, 0
    rank = whole(text, "kv_lora_rank")
    if rank:
        index = whole(text, "index_head_dim")
        extra = index + 4 * -(-index // 128) if index else 0
        latent = KvGroup(full + sliding, 1, rank + (whole(text, "qk_rope_head_dim") or 0), 0, None, True, extra)
        return [latent] if latent.layers else []
    heads, k, v = heads_of(text)
    if not heads or not k:
        return []
    found = [KvGroup(full, heads, k, v), KvGroup(sliding, heads, k, v, window)]
    return [group for group in found if group.layers]


def heads_of(text: Mapping[str, Any]) -> tuple[int, int, int]:
    """KV heads, and the elements of one head of K and of V; zeros where they are not told."""
    heads = whole(text, "num_attention_heads", "n_head") or 0
    hidden = whole(text, "hidden_size", "n_embd") or 0
    width = whole(text, "head_dim") or (hidden // heads if heads else 0)
    kept = whole(text, "num_key_value_heads") or heads
    return kept, width, whole(text, "v_head_dim") or width


def attention(text: Mapping[str, Any]) -> str | None:
    """MLA, MHA, GQA or MQA."""
    if whole(text, "kv_lora_rank"):
        return "MLA"
    heads, (kept, _, _) = whole(text, "num_attention_heads", "n_head"), heads_of(text)
    if not heads:
        return None
    return "MHA" if kept == heads else "MQA" if kept == 1 else "GQA"
