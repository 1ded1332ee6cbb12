"""How many parameters a model has, and how many of them one token uses, by its config alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sitrepd.modelcards.layers import heads_of, whole

# Their layers are built as they are counted here; of others the figure is a guess, and is called one.
KNOWN = frozenset(
    (
        "llama", "mistral", "ministral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "mixtral", "deepseek_v2",
        "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_k25", "gpt_oss", "gemma", "gemma2", "gemma3", "gemma3_text",
        "phi3", "glm4_moe",
    )
)  # fmt: skip
_FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text")
_QK_NORMS = ("qwen3", "qwen3_moe", "gemma3", "gemma3_text")


@dataclass(frozen=True)
class Experts:
    """The experts of one layer: how many there are, how many a token uses, and those that every token uses."""

    count: int
    used: int
    shared: int
    layers: int
    each: int
    """Parameters of one expert."""


@dataclass(frozen=True)
class Counted:
    """`active` counts the embedding tables too, as most publishers do; `embedding` is the input table alone."""

    total: int
    active: int
    embedding: int


def counted(text: Mapping[str, Any]) -> Counted | None:
    """None where the config does not say enough."""
    layers, hidden = whole(text, "num_hidden_layers", "n_layer"), whole(text, "hidden_size", "n_embd")
    vocabulary = whole(text, "vocab_size")
    if not layers or not hidden or not vocabulary or not whole(text, "num_attention_heads", "n_head"):
        return None
    inner = whole(text, "intermediate_size", "n_inner")
    found = experts(text)
    dense = layers - (found.layers if found else 0)
    if (dense and not inner) or (found and not found.each):
        return None
    mixed = _router(text, found, hidden) if found else 0
    shared = found.shared if found else 0
    norms = hidden * (4 if text.get("model_type") in _FOUR_NORMS else 2)
    body = layers * (_attention(text, hidden) + norms) + hidden
    body += dense * _gated(hidden, inner or 0, bool(text.get("mlp_bias")))
    embedding = vocabulary * hidden
    head = 0 if text.get("tie_word_embeddings", False) else embedding
    common = body + embedding + head
    if found is None:
        return Counted(common, common, embedding)
    common += found.layers * (mixed + shared)
    each = found.layers * found.each
    return Counted(common + each * found.count, common + each * found.used, embedding)


def experts(text: Mapping[str, Any]) -> Experts | None:
    count = whole(text, "n_routed_experts", "num_experts", "num_local_experts")
    used = whole(text, "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k")
    layers, hidden = whole(text, "num_hidden_layers") or 0, whole(text, "hidden_size") or 0
    if not count or count < 2 or not used:
        return None
    inner = whole(text, "moe_intermediate_size", "expert_intermediate_size", "intermediate_size") or 0
    shared = _gated(hidden, inner, False) * (whole(text, "n_shared_experts", "num_shared_experts") or 0)
    of_qwen = whole(text, "shared_expert_intermediate_size")
    if of_qwen:
        shared = _gated(hidden, of_qwen, False) + hidden
    each = _gated(hidden, inner, text.get("model_type") == "gpt_oss")
    return Experts(count, min(used, count), shared, _mixed_layers(text, layers), each)


def _mixed_layers(text: Mapping[str, Any], layers: int) -> int:
    """Layers with experts: not the first dense ones, and each n-th where that is told."""
    first = whole(text, "first_k_dense_replace") or 0
    step = whole(text, "decoder_sparse_step", "moe_layer_freq") or 1
    told = text.get("mlp_only_layers")
    plain = set(told) if isinstance(told, list) else set()
    offset = 1 if "decoder_sparse_step" in text else 0
    return sum(at >= first and at not in plain and (at + offset) % step == 0 for at in range(layers))


def _router(text: Mapping[str, Any], found: Experts, hidden: int) -> int:
    biased = text.get("model_type") == "gpt_oss" or text.get("topk_method") == "noaux_tc"
    return found.count * (hidden + (1 if biased else 0))


def _gated(hidden: int, inner: int, biased: bool) -> int:
    """Gate, up and down."""
    return 3 * hidden * inner + (2 * inner + hidden if biased else 0)


def _attention(text: Mapping[str, Any], hidden: int) -> int:
    heads = whole(text, "num_attention_heads", "n_head") or 0
    if whole(text, "kv_lora_rank"):
        return _latent_attention(text, hidden, heads)
    kept, width, value = heads_of(text)
    found = hidden * heads * width + hidden * kept * (width + value) + heads * value * hidden
    kind = text.get("model_type")
    if text.get("attention_bias"):
        found += heads * width + kept * (width + value)
        found += 0 if kind in ("qwen2", "qwen2_moe", "glm4_moe") else hidden
    if kind in _QK_NORMS or text.get("use_qk_norm"):
        found += 2 * width
    return found + (heads if kind == "gpt_oss" else 0)


def _latent_attention(text: Mapping[str, Any], hidden: int, heads: int) -> int:
    rank, asked = whole(text, "kv_lora_rank") or 0, whole(text, "q_lora_rank")
    rope, plain = whole(text, "qk_rope_head_dim") or 0, whole(text, "qk_nope_head_dim") or 0
    value = whole(text, "v_head_dim") or plain
    query = heads * (plain + rope)
    found = hidden * asked + asked + asked * query if asked else hidden * query
    found += hidden * (rank + rope) + rank + rank * heads * (plain + value) + heads * value * hidden
    index, of_index = whole(text, "index_head_dim"), whole(text, "index_n_heads")
    if index and of_index and asked:
        found += asked * of_index * index + hidden * index + 2 * index + hidden * of_index
    return found
