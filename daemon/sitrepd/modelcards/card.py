"""A model card, made from a folder's config.json and the headers of its weights."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sitrepd.modelcards import headers, layers
from sitrepd.modelcards.layers import KvGroup, kv_groups, text_part, whole
from sitrepd.modelcards.parameters import KNOWN, Counted, counted, experts
from sitrepd.modelcards.quantization import quantization

KV_BYTES: Mapping[str, float] = {"bf16": 2, "fp16": 2, "fp8": 1, "fp4": 0.5, "fp32": 4}
_NO_WEIGHTS = ("I64", "BOOL", "U64")
_FAR_APART = 0.02


@dataclass(frozen=True)
class Card:
    """`details` is JSON: what the columns of a model card have no room for."""

    path: str
    name: str
    config: dict[str, Any]
    details: dict[str, Any]
    digest: str
    weight_bytes: int | None
    parameters: int | None
    active_parameters: int | None
    quantization: str | None
    kv_bytes_per_token: int | None
    note: str | None


def read_card(folder: Path, name: str | None = None) -> Card:
    """Reads the folder; BadModelFolder says what is wrong with it."""
    config = headers.read_config(folder)
    other = folder / "hf_quant_config.json"
    modelopt = headers.read_json(other) if other.is_file() else None
    files = headers.weight_files(folder)
    found = list(headers.tensors(files))
    return made(folder, name or folder.resolve().name, config, found, len(files), modelopt)


def made(
    folder: Path,
    name: str,
    config: Mapping[str, Any],
    tensors: Sequence[headers.Tensor],
    files: int,
    modelopt: Any = None,
) -> Card:
    """The card of what was read; pure."""
    text = text_part(config)
    names = config.get("architectures")
    architecture = str(names[0]) if isinstance(names, list) and names else None
    draft = _draft(architecture or "", text, tensors)
    if not draft and not whole(text, "num_hidden_layers", "n_layer", "num_layers"):
        raise headers.BadModelFolder(f"{folder / 'config.json'} tells no num_hidden_layers; it is no language model's.")
    method = quantization(config, text, modelopt)
    by_config = None if draft else counted(text)
    total, active, notes = _parameters(by_config, tensors, method, text)
    by_type = Counter[str]()
    for tensor in tensors:
        by_type[tensor.dtype] += tensor.bytes
    groups = kv_groups(text)
    each = kv_bytes(groups, "bf16")
    if not tensors:
        notes.append("No safetensors weights lie in the folder: their bytes are not known.")
    details = {
        "architecture": architecture, **_shape(text, groups), "draft": draft,
        "parameters": {"by_config": by_config.total if by_config else None,
                       "in_files": _elements(tensors) if tensors and method is None else None,
                       "embedding": by_config.embedding if by_config else None,
                       "active_without_embedding": by_config.active - by_config.embedding if by_config else None},
        "weights": {"bytes": sum(by_type.values()), "files": files, "tensors": len(tensors),
                    "by_type": dict(by_type.most_common())} if tensors else None,
        "kv": {"groups": [asdict(group) for group in groups],
               "bytes_per_token": {name: kv_bytes(groups, name) for name in KV_BYTES},
               "beyond_window": kv_bytes([g for g in groups if g.window is None], "bf16")
               if any(group.window for group in groups) else None} if groups else None,
        "notes": notes,
    }  # fmt: skip
    digest = _digest({**config, "hf_quant_config": modelopt} if modelopt else config, tensors)
    return Card(
        str(folder), name, dict(config), _present(details), digest, sum(by_type.values()) if tensors else None,
        total, active, method, each or None, None,
    )  # fmt: skip


def kv_bytes(groups: Sequence[KvGroup], kind: str, tp: int = 1) -> int:
    """Of one token in all layers, at a KV type; with `tp`, on one of so many ranks."""
    return round(sum(group.layers * (group.elements(tp) * KV_BYTES[kind] + group.extra_bytes) for group in groups))


def groups_of(details: Mapping[str, Any]) -> list[KvGroup]:
    """The groups of a stored card."""
    return [KvGroup(**one) for one in (details.get("kv") or {}).get("groups") or ()]


def _shape(text: Mapping[str, Any], groups: Sequence[KvGroup]) -> dict[str, Any]:
    every, mixed = layers.kinds(text), experts(text)
    kept, width, _ = layers.heads_of(text)
    latent = layers.attention(text) == "MLA"
    return {
        "model_type": text.get("model_type") or None,
        "layers": len(every), "hidden_size": whole(text, "hidden_size", "n_embd"),
        "intermediate_size": whole(text, "intermediate_size", "n_inner"),
        "attention": layers.attention(text), "heads": whole(text, "num_attention_heads", "n_head"),
        "kv_heads": None if latent else kept, "head_dim": None if latent else width,
        "kv_lora_rank": whole(text, "kv_lora_rank"), "vocab_size": whole(text, "vocab_size"),
        "context_length": whole(text, "max_position_embeddings", "n_positions"),
        "dtype": text.get("torch_dtype") or text.get("dtype"),
        "sliding": {"layers": sum(group.layers for group in groups if group.window), "window": next(group.window for
                    group in groups if group.window)} if any(group.window for group in groups) else None,
        "without_kv": every.count("none") or None,
        "experts": {"count": mixed.count, "used": mixed.used, "layers": mixed.layers, "parameters_each": mixed.each,
                    "shared_parameters": mixed.shared or None,
                    "shared": whole(text, "n_shared_experts", "num_shared_experts")} if mixed else None,
    }  # fmt: skip


def _parameters(
    by_config: Counted | None, tensors: Sequence[headers.Tensor], method: str | None, text: Mapping[str, Any]
) -> tuple[int | None, int | None, list[str]]:
    """Unquantized weights are counted, since they are the truth; packed ones go by the config."""
    notes: list[str] = []
    if by_config is not None and text.get("model_type") not in KNOWN:
        notes.append(f"Parameters are counted as of a Llama: {text.get('model_type') or 'its type'} is not known here.")
    if not tensors or method is not None:
        return (by_config.total, by_config.active, notes) if by_config else (None, None, notes)
    in_files = _elements(tensors)
    if by_config is None:
        return in_files, in_files if experts(text) is None else None, notes
    if abs(in_files / by_config.total - 1) > _FAR_APART:
        notes.append(
            f"The files hold {in_files} parameters, the language model of the config {by_config.total}: the rest is "
            f"a vision tower, heads for more tokens at once, or a layout that is not known here."
        )
    return in_files, in_files - (by_config.total - by_config.active), notes


def _elements(tensors: Sequence[headers.Tensor]) -> int:
    return sum(tensor.elements for tensor in tensors if tensor.dtype not in _NO_WEIGHTS)


def _draft(architecture: str, text: Mapping[str, Any], tensors: Sequence[headers.Tensor]) -> dict[str, Any] | None:
    """What makes an EAGLE draft: how it joins hidden states, its layer, and both vocabularies."""
    if "eagle" not in architecture.lower() and "draft_vocab_size" not in text:
        return None
    shapes = {tensor.name.removeprefix("model."): tensor.shape for tensor in tensors}
    hidden = whole(text, "hidden_size") or 0
    target = whole(text, "target_hidden_size") or hidden
    third = "eagle3" in architecture.lower() or "draft_vocab_size" in text
    joined = list(shapes.get("fc.weight") or ((hidden, 3 * target) if third else (hidden, 2 * hidden)))
    middle = sorted(name for name in shapes if name.startswith("midlayer."))
    return {
        "kind": "EAGLE-3" if third else "EAGLE", "fc": joined, "target_hidden_size": target,
        "hidden_states_joined": joined[1] // target if target and len(joined) == 2 else None,
        "midlayer": {name.removeprefix("midlayer."): list(shapes[name]) for name in middle if name.endswith("weight")},
        "vocab_size": whole(text, "vocab_size"),
        "draft_vocab_size": whole(text, "draft_vocab_size") or whole(text, "vocab_size"),
        "maps_vocabulary": "d2t" in shapes and "t2d" in shapes if tensors else None,
        "own_embedding": "embed_tokens.weight" in shapes if tensors else None,
    }  # fmt: skip


def _digest(config: Mapping[str, Any], tensors: Sequence[headers.Tensor]) -> str:
    """SHA-256 of what the card rests on."""
    told = [dict(config), [[one.name, one.dtype, one.shape] for one in tensors]]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def _present(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _present(one) for name, one in value.items() if one is not None and one != {} and one != []}
    return value
