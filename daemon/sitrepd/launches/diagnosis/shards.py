"""Which shards the index of a model names and its folder lacks, or has only in part."""

from __future__ import annotations

import json
from pathlib import Path

_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MOST_INDEX_BYTES = 256 << 20


def missing_shards(folder: Path | str) -> list[str]:
    """Names in their order; empty where there is no index, no such folder, or nothing is missing."""
    root = Path(folder)
    for name in _INDEXES:
        named = _named(root / name)
        if named:
            return [shard for shard in named if not _is_there(root / shard)]
    return []


def _named(index: Path) -> list[str]:
    try:
        if index.stat().st_size > _MOST_INDEX_BYTES:
            return []
        told = json.loads(index.read_bytes())
        return sorted({str(shard) for shard in told["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _is_there(shard: Path) -> bool:
    try:
        return shard.stat().st_size > 0
    except OSError:
        return False
