"""Launches that are not made, and model folders that are."""

from __future__ import annotations

import json
import os
import shlex
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sitrepd.hardware.gpus import GpuFacts
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.model import Subject
from sitrepd.launches.check.subject import subject_of
from sitrepd.launches.models import LaunchCreate

GIB = 1 << 30
CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 32000,
}  # fmt: skip


def server(*flags: str, model: Path | str = "/models/kimi", python: str = sys.executable) -> list[str]:
    return [python, "-m", "sglang.launch_server", "--model-path", str(model), *flags]


def line(*flags: str, **more: Any) -> str:
    return shlex.join(server(*flags, **more))


def hardware(gpus: int = 8) -> LiveHardware:
    facts = tuple(GpuFacts(index, uuid=f"GPU-{index}aaaa") for index in range(gpus))
    return LiveHardware(facts=facts, reason=None)


def subject(
    *flags: str, env: Mapping[str, str] | None = None, gpus: int = 8, model: Path | str = "/models/kimi"
) -> Subject:
    body = LaunchCreate(argv=server(*flags, model=model), env=dict(env or {}), cwd=os.getcwd())
    return subject_of(body, hardware(gpus))


def shard(path: Path, tensors: Mapping[str, int], cut: int = 0, holes: bool = False) -> None:
    """A safetensors file whose tensors have so many bytes, without its last `cut`; `holes` takes no room on the disk."""
    at, header = 0, {}
    for name, size in tensors.items():
        header[name] = {"dtype": "U8", "shape": [size], "data_offsets": [at, at + size]}
        at += size
    head = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        if not holes:
            file.write(b"\1" * at)
        file.truncate(8 + len(head) + at - cut)


def model(
    folder: Path, sizes: Sequence[int] = (100, 100), config: Mapping[str, Any] = CONFIG, holes: bool = False
) -> Path:
    """A whole model: config, index, and one tensor a shard."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config)))
    weight_map = {}
    for number, size in enumerate(sizes, 1):
        name = f"model-{number:05}-of-{len(sizes):05}.safetensors"
        shard(folder / name, {f"w{number}": size}, holes=holes)
        weight_map[f"w{number}"] = name
    index = {"metadata": {"total_size": sum(sizes)}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
