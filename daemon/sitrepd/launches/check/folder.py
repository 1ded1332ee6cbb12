"""Where a model lies on this machine, and what its folder holds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

from sitrepd.launches.check.safetensors import Shard, read_shard

INDEX = "model.safetensors.index.json"
_MOST_JSON_BYTES = 256 << 20


@dataclass(frozen=True)
class Folder:
    """`shards` are those that the index names, or that lie there; `promised_bytes` is the size by the index."""

    path: Path
    config: Mapping[str, Any] | None = None
    shards: Mapping[str, Shard] = field(default_factory=dict)
    promised_bytes: int | None = None
    indexed: bool = False

    @property
    def weight_bytes(self) -> int:
        return sum(shard.tensor_bytes or shard.size for shard in self.shards.values())


def find(told: str, cwd: Path, env: Mapping[str, str]) -> Path | None:
    """The folder that a model path means: as it is, below the working directory, or in the cache of the hub."""
    path = cwd / expanded(told, env)
    if path.is_dir():
        return path
    if looks_like_a_path(told) or told.count("/") > 1:
        return None
    found = sorted((cache(env) / f"models--{told.replace('/', '--')}" / "snapshots").glob("*/config.json"))
    return found[-1].parent if found else None


def expanded(told: str, env: Mapping[str, str]) -> str:
    """A shell has replaced `~` already where the command went through one."""
    home = env.get("HOME")
    return home + told[1:] if home and (told == "~" or told.startswith("~/")) else told


def looks_like_a_path(told: str) -> bool:
    return told.startswith(("/", "./", "../", "~")) or told in (".", "..")


def cache(env: Mapping[str, str]) -> Path:
    """The cache of Hugging Face's hub, as its library finds it."""
    if told := env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE"):
        return Path(told)
    home = env.get("HF_HOME") or os.path.join(
        env.get("XDG_CACHE_HOME") or f"{env.get('HOME', '')}/.cache", "huggingface"
    )
    return Path(home, "hub")


def read(path: Path) -> Folder:
    """Reads config, index and the headers of all shards."""
    index = _json(path / INDEX)
    named = index.get("weight_map") if index else None
    names = sorted(set(named.values())) if isinstance(named, dict) else []
    found = names or sorted(one.name for one in path.glob("*.safetensors"))
    total = (index or {}).get("metadata") or {}
    return Folder(
        path,
        _json(path / "config.json"),
        {name: read_shard(path / name) for name in found},
        total.get("total_size") if isinstance(total, dict) and isinstance(total.get("total_size"), int) else None,
        bool(names),
    )


class Folders:
    """Reads each folder once, for all checks of a launch: the headers of a large model are tens of megabytes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read: dict[Path, tuple[Lock, list[Folder]]] = {}

    def read(self, path: Path) -> Folder:
        with self._lock:
            lock, found = self._read.setdefault(path, (Lock(), []))
        with lock:
            if not found:
                found.append(read(path))
            return found[0]


def _json(path: Path) -> dict[str, Any] | None:
    try:
        if path.stat().st_size > _MOST_JSON_BYTES:
            return None
        told = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) else None
