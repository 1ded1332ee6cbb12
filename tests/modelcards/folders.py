"""Model folders as they lie on a disk: config.json, and weights with true headers over holes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sitrepd.modelcards.headers import BITS

Shapes = Mapping[str, tuple[str, tuple[int, ...]]]
TARGET: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 32000,
    "max_position_embeddings": 32768, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
DRAFT = TARGET | {"architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 32000}


def weights(path: Path, shapes: Shapes, beyond: int = 0) -> None:
    """A safetensors file of that size whose tensors are holes; `beyond` lets the header lie by so many bytes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in shapes.items():
        size = math.prod(shape) * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    body = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(body).to_bytes(8, "little") + body)
        file.truncate(8 + len(body) + at - beyond)


def layer(name: str, hidden: int = 4096, inputs: int = 4096, inner: int = 14336, kept: int = 1024) -> Shapes:
    return {
        f"{name}.self_attn.q_proj.weight": ("BF16", (hidden, inputs)),
        f"{name}.self_attn.k_proj.weight": ("BF16", (kept, inputs)),
        f"{name}.self_attn.v_proj.weight": ("BF16", (kept, inputs)),
        f"{name}.self_attn.o_proj.weight": ("BF16", (hidden, hidden)),
        f"{name}.mlp.gate_proj.weight": ("BF16", (inner, hidden)),
        f"{name}.mlp.up_proj.weight": ("BF16", (inner, hidden)),
        f"{name}.mlp.down_proj.weight": ("BF16", (hidden, inner)),
        f"{name}.input_layernorm.weight": ("BF16", (hidden,)),
        f"{name}.post_attention_layernorm.weight": ("BF16", (hidden,)),
    }


def target(folder: Path) -> Path:
    """The random-weight model that the H200 recordings were made with."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(TARGET))
    names = {}
    for part in range(8):
        shapes = dict(layer(f"model.layers.{part * 4}"))
        for number in range(part * 4 + 1, part * 4 + 4):
            shapes |= layer(f"model.layers.{number}")
        if part == 0:
            shapes["model.embed_tokens.weight"] = ("BF16", (32000, 4096))
        if part == 7:
            shapes |= {"model.norm.weight": ("BF16", (4096,)), "lm_head.weight": ("BF16", (32000, 4096))}
        file = f"model-{part + 1:05d}-of-00008.safetensors"
        weights(folder / file, shapes)
        names |= dict.fromkeys(shapes, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def draft(folder: Path) -> Path:
    """Its EAGLE-3 draft."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(DRAFT))
    shapes = {
        **layer("midlayer", inputs=8192), "midlayer.hidden_norm.weight": ("BF16", (4096,)),
        "fc.weight": ("BF16", (4096, 12288)), "norm.weight": ("BF16", (4096,)), "lm_head.weight": ("BF16", (32000, 4096)),
        "d2t": ("I64", (32000,)), "t2d": ("BOOL", (32000,)),
    }  # fmt: skip
    weights(folder / "model.safetensors", shapes)
    return folder
