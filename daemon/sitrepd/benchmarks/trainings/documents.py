"""Training runs as JSON: the state of the HF Trainer, JSON Lines, and an array of the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sitrepd.benchmarks.trainings.points import Points, TrainingFileError

_STEPS = ("step", "global_step", "_step", "train/step", "train/global_step", "eval/step", "iteration", "iter", "steps")
_EPOCHS = ("epoch", "train/epoch", "eval/epoch", "_epoch")


def read_state(told: Mapping[str, Any], name: str) -> tuple[Points, list[str]]:
    """`trainer_state.json`, with the checkpoint that the trainer itself held for the best."""
    points = Points()
    for entry in told["log_history"]:
        if isinstance(entry, dict) and "train_runtime" not in entry:
            _add(points, entry)
    notes = []
    if told.get("best_metric") is not None:
        best, step = told["best_metric"], told.get("best_global_step")
        notes.append(f"The trainer's own best metric is {best}{f', at step {step}' if step is not None else ''}.")
    if not points.found:
        raise TrainingFileError(f"{name} has an empty log_history: nothing was logged before it was written.")
    return points, notes


def read_entries(entries: Iterable[Any]) -> Points:
    points = Points()
    for entry in entries:
        if isinstance(entry, dict):
            _add(points, entry)
    return points


def read_lines(lines: Iterable[str], name: str) -> tuple[Points, list[str]]:
    """One object a line; the last may be cut short, as of a run that still writes."""
    points, bad = Points(), 0
    last = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if bad:
            raise TrainingFileError(f"{name} is no JSON in line {bad}.")
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            bad = number
            continue
        last = number
        if isinstance(entry, dict):
            _add(points, entry)
    if bad and not last:
        raise TrainingFileError(f"{name} is no JSON in line {bad}.")
    return points, [f"Line {bad}, the last, is cut short and was left out."] if bad else []


def _add(points: Points, entry: Mapping[str, Any]) -> None:
    flat = _flat(entry)
    step = next((flat[name] for name in _STEPS if name in flat), None)
    epoch = next((flat[name] for name in _EPOCHS if name in flat), None)
    rest = {name: value for name, value in flat.items() if name not in (*_STEPS, *_EPOCHS) and not _is_about(name)}
    points.add(epoch, step, rest)


def _is_about(name: str) -> bool:
    """What says when and by whom a line was written."""
    return name in ("timestamp", "_timestamp", "time", "_runtime", "rank", "seed", "pid")


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`{"train": {"loss": 1}}` is `train/loss`."""
    found: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, dict):
            found |= {f"{name}/{of}": one for of, one in value.items() if not isinstance(one, dict)}
        else:
            found[name] = value
    return found
