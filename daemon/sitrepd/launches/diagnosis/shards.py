"""Which shards the index of a model names and its folder lacks, or has only in part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json")
_MOST_INDEX_BYTES = 256 << 20


def of_missing_shards(reading: Reading, beside: Beside) -> Diagnosis | None:
    """Some releases load a model whose folder lacks shards without a word, and serve what was never initialised."""
    folder = beside.model_folder or reading.known.get("model_path")
    if not folder or not isinstance(folder, (str, Path)) or not Path(folder).is_dir():
        return None
    missing = _missing_shards(folder)
    if not missing:
        return None
    names = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    return Diagnosis(
        reading.progress.state,
        reading.progress.phase or None,
        "weights_missing",
        f"The folder of the model lacks shards that its index names: {names}",
        "The server goes on without them: some releases do not check, and serve weights that were never loaded.",
        f"Stop it; hf download REPO --local-dir {folder} (it resumes), then start again.",
        (Evidence(0, f"{folder}: missing {names}"),),
    )


def _missing_shards(folder: Path | str) -> list[str]:
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
