"""A Llama of a few hundred kilobytes with real safetensors shards, made by hand, and ways to damage it."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from random import Random
from typing import Any

HIDDEN, LAYERS, VOCABULARY, INTERMEDIATE, HEAD = 128, 2, 1024, 256, 64
CONTEXT = 2048
_HEADS, _KV_HEADS = 2, 1
_SIZES = ("hidden_size", "num_attention_heads", "num_key_value_heads")


def make_model(folder: Path, shards: int = 4, **config: Any) -> Path:
    """Write configuration, shards and their index; random weights, the same each time."""
    folder.mkdir(parents=True)
    told = {**_config(), **config}
    (folder / "config.json").write_text(json.dumps(told, indent=1))
    random = Random(0)
    tensors = _shapes(told)
    names = list(tensors)
    index = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        mine = names[number::shards]
        _write_shard(folder / name, {one: tensors[one] for one in mine}, random)
        index |= dict.fromkeys(mine, name)
    total = sum(2 * math.prod(shape) for shape in tensors.values())
    told_index = {"metadata": {"total_size": total}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(told_index, indent=1))
    return folder


def shards_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def _config() -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS, "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS, "head_dim": HEAD, "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip


def _shapes(told: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    hidden, heads, kv_heads = (int(told[name]) for name in _SIZES)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, hidden)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.self_attn.q_proj.weight": (heads * HEAD, hidden),
            f"{at}.self_attn.k_proj.weight": (kv_heads * HEAD, hidden),
            f"{at}.self_attn.v_proj.weight": (kv_heads * HEAD, hidden),
            f"{at}.self_attn.o_proj.weight": (hidden, heads * HEAD),
            f"{at}.mlp.gate_proj.weight": (INTERMEDIATE, hidden),
            f"{at}.mlp.up_proj.weight": (INTERMEDIATE, hidden),
            f"{at}.mlp.down_proj.weight": (hidden, INTERMEDIATE),
            f"{at}.input_layernorm.weight": (hidden,),
            f"{at}.post_attention_layernorm.weight": (hidden,),
        }
    return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (VOCABULARY, hidden)}


def _write_shard(path: Path, shapes: dict[str, tuple[int, ...]], random: Random) -> None:
    """Eight bytes of length, a JSON header, the numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in shapes.items():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    body = b"".join(_numbers(math.prod(shape), random) for shape in shapes.values())
    path.write_bytes(struct.pack("<Q", len(told)) + told + body)


def _numbers(count: int, random: Random) -> bytes:
    """bfloat16 is the upper half of a float32."""
    pool = [struct.pack("<f", random.gauss(0.0, 0.05))[2:] for _ in range(509)]
    return b"".join((pool * (count // len(pool) + 1))[:count])
