"""A training run from a file, whose kind is told by its content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitrepd.benchmarks.trainings import documents
from sitrepd.benchmarks.trainings.logs import read_log
from sitrepd.benchmarks.trainings.points import Points, ReadPoint, TrainingFileError, thinned

_MOST_JSON = 256 << 20


@dataclass(frozen=True)
class ReadTraining:
    """`count` points were read, of which `points` are kept."""

    tool: str
    points: Sequence[ReadPoint]
    count: int
    note: str | None


def read_training(path: Path, name: str) -> ReadTraining:
    """TrainingFileError says what is wrong with it."""
    try:
        if path.is_dir():
            return read_training(_state_of(path), name)
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            tool, points, notes = _json(path, name) if file.read(1) in "{[" and _is_json(path) else _log(path)
    except OSError as error:
        raise TrainingFileError(f"{name} cannot be read: {error.strerror or error}.") from error
    if tool is None or not points.found:
        raise TrainingFileError(
            f"{name} has no metrics by epoch or step, as SpecForge, TorchSpec and the HF Trainer print them, a "
            "trainer_state.json has them, or JSON Lines."
        )
    found = _ordered(points)
    kept = thinned(found)
    if len(kept) < len(found):
        notes = [*notes, f"{len(kept)} of {len(found)} points are kept, the best ones among them."]
    return ReadTraining(tool, kept, len(found), " ".join([*notes, *points.notes()]) or None)


def _state_of(folder: Path) -> Path:
    """The state in an output folder of the HF Trainer: the latest that it has."""
    found = [path for path in (folder, *folder.glob("checkpoint-*")) if (path / "trainer_state.json").is_file()]
    if not found:
        raise TrainingFileError(f"{folder.name} has no trainer_state.json, nor a checkpoint-… that has.")
    return max(found, key=lambda path: (path / "trainer_state.json").stat().st_mtime) / "trainer_state.json"


def _is_json(path: Path) -> bool:
    """Whether the first line is JSON, or the file as a whole begins as a document does."""
    with open(path, encoding="utf-8", errors="replace") as file:
        first = file.readline().strip()
    if first in ("{", "[") or first.startswith(('{"', "[{")):
        return True
    try:
        return isinstance(json.loads(first), dict | list)
    except (ValueError, RecursionError):
        return False


def _json(path: Path, name: str) -> tuple[str | None, Points, list[str]]:
    document = _document(path)
    if isinstance(document, dict) and isinstance(document.get("log_history"), list):
        return "HF Trainer", *documents.read_state(document, name)
    if isinstance(document, list):
        return "JSON", documents.read_entries(document), []
    with open(path, encoding="utf-8", errors="replace") as file:
        return "JSON Lines", *documents.read_lines(file, name)


def _document(path: Path) -> Any:
    """The file as one JSON document; None where it is none, such as several lines."""
    if path.stat().st_size > _MOST_JSON:
        return None
    try:
        return json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        return None


def _log(path: Path) -> tuple[str | None, Points, list[str]]:
    with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
        return read_log(file)


def _ordered(points: Points) -> list[ReadPoint]:
    """By step where all have one, else by epoch where all have one, else as they were written."""
    found = list(points.found.values())
    if all(point.step is not None for point in found):
        return sorted(found, key=lambda point: point.step or 0)
    if all(point.epoch is not None for point in found):
        return sorted(found, key=lambda point: point.epoch or 0)
    return found
