"""Training runs: the logs and state files of trainers, as points by epoch or step."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

from sitrepd.backfill import text
from sitrepd.backfill.found import Passed, Reading, Run, key_of
from sitrepd.benchmarks.metrics import describe

MOST_POINTS = 2000
_MOST_STATE_BYTES = 256 << 20
_MOST_METRICS = 40
_PLACES = {
    "epoch": "epoch", "epochs": "epoch", "step": "step", "steps": "step", "global_step": "step", "iter": "step",
    "iteration": "step", "current_steps": "step", "train/global_step": "step", "train/epoch": "epoch", "_step": "step",
    "trainer/global_step": "step",
}  # fmt: skip
_METRIC = re.compile(
    r"(?:^|[_./ -])(?:loss|acc|accuracy|ppl|perplexity|accept|reward|f1|score|em)(?:$|[_./ -]|\d)", re.I
)
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(
    rf"(?<![\w./])([A-Za-z_][\w./-]{{0,60}}?)['\"]?\s*[=:]\s*['\"]?(?:tensor\()?({_NUMBER})(%?)(?![\w.:])"
)
_PLACE = re.compile(r"(?<![\w])(epoch|step|global_step|iter(?:ation)?)s?\s*[\[(#:=]?\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_RECORD = re.compile(r"\{'[^{}]*\}")
_STAMP = re.compile(r"(20\d\d[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d)")
_SIGN = re.compile(
    rb"\{'(?:loss|eval_loss|train_runtime|train_loss)'|\bepoch\b[^\n]{0,200}\b(?:loss|acc)"
    rb"|\b(?:loss|acc)\w*\b[^\n]{0,200}\bepoch\b|\b(?:step|iter(?:ation)?)s?\b[^\n]{0,12}\d[^\n]{0,200}\bloss\b",
    re.IGNORECASE,
)
_IGNORED = frozenset(("total_flos", "train_runtime", "train_samples_per_second", "train_steps_per_second"))
_PLAIN_NAMES = ("trainer_state", "train", "training", "log", "output", "stdout", "metrics", "history", "nohup")
_TIME_NOTE = "When it ran is known only from the file's last change."


def looks_like(data: bytes) -> bool:
    """Whether a text shows epochs or steps with a loss or an accuracy, more than once or in a trainer's own form."""
    hits = _SIGN.findall(data[: 256 << 10])
    return len(hits) >= 2 or any(hit.startswith(b"{'") for hit in hits)


def is_point(document: Mapping[str, Any]) -> bool:
    """Whether an object has an epoch or a step, and a metric."""
    return _place(document) != (None, None) and any(
        _METRIC.search(name) and _decimal(value) is not None for name, value in document.items() if name not in _PLACES
    )


def read_training(path: str, mtime: datetime, tz: tzinfo | None) -> Reading:
    """The run of a log in plain words; raises one of `text.UNREADABLE`."""
    points = _Points()
    first = last = None
    with text.opened(path) as file:
        for block in text.blocks(file):
            for raw in re.split(rb"[\r\n]+", block):
                line = raw[: 16 << 10].decode("utf-8", "replace")
                if stamp := _STAMP.search(line):
                    last = stamp[1]
                    first = first or last
                for point in _points_of(line):
                    points.add(point)
    reading = Reading(path)
    begun, ended = _time(first, tz), _time(last, tz)
    _finish(reading, points, path, begun or mtime, ended or mtime, timed=begun is not None)
    return reading


def read_records(path: str, mtime: datetime) -> Reading:
    """The run of a file with one object a line, an array of them, or a trainer's state with its `log_history`."""
    reading, points = Reading(path), _Points()
    bad = 0
    with text.opened(path) as file:
        data = file.read(_MOST_STATE_BYTES + 1)
    if len(data) > _MOST_STATE_BYTES:
        reading.passed.append(Passed(path, f"a state file of more than {_MOST_STATE_BYTES >> 20} MiB"))
        return reading
    try:
        told: Any = json.loads(data, parse_float=Decimal, parse_constant=Decimal)
        told = told.get("log_history", [told]) if isinstance(told, dict) else told
        documents: Iterable[Any] = told if isinstance(told, list) else ()
    except (ValueError, RecursionError):
        documents = _lines(data)
    for document in documents:
        if isinstance(document, Mapping) and (point := _point(document)):
            points.add(point)
        elif not isinstance(document, Mapping):
            bad += 1
    if bad:
        reading.passed.append(Passed(path, f"lines that are no JSON objects: {bad} (the others were read)"))
    _finish(reading, points, path, mtime, mtime, timed=False)
    return reading


def _lines(data: bytes) -> Iterator[Any]:
    for line in data.split(b"\n"):
        if line.strip():
            try:
                yield json.loads(line, parse_float=Decimal, parse_constant=Decimal)
            except (ValueError, RecursionError):
                yield None


class _Points:
    """Points in order; what is told of one place by several lines comes together; of very many some are kept."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.seen = 0
        self._every = 1

    def add(self, point: dict[str, Any]) -> None:
        last = self.all[-1] if self.all else None
        if last is not None and (last["epoch"], last["step"]) == (point["epoch"], point["step"]):
            last["metrics"] |= point["metrics"]
            return
        self.seen += 1
        if self.seen % self._every == 0 or any(name.startswith(("eval", "val", "test")) for name in point["metrics"]):
            self.all.append(point)
        if len(self.all) > 2 * MOST_POINTS:
            self.all = self.all[::2]
            self._every *= 2


def _points_of(line: str) -> Iterator[dict[str, Any]]:
    if "{'" in line:
        for record in _RECORD.findall(line):
            try:
                told = ast.literal_eval(record)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if point := _point(_exact(record, told)):
                yield point
        return
    if "oss" not in line and "cc" not in line:
        return
    told = {}
    for place, value in _PLACE.findall(line):
        told.setdefault(_PLACES.get(place.lower(), "step"), value)
    for name, value, percent in _PAIR.findall(line):
        if not percent:
            told.setdefault(name, value)
    if point := _point(told):
        yield point


def _exact(record: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers as they were written: 2e-05 and 1.50 keep their digits."""
    written = {name: value for name, value, _ in _PAIR.findall(record)}
    return {name: written.get(name, value) if isinstance(value, float | int) else value for name, value in told.items()}


def _point(document: Mapping[str, Any]) -> dict[str, Any] | None:
    if not is_point(document):
        return None
    epoch, step = _place(document)
    metrics: dict[str, Any] = {}
    for name, told in document.items():
        value = _decimal(told)
        if name in _PLACES or name in _IGNORED or value is None or not 0 < len(name) <= 200:
            continue
        unit, better = describe(name)
        metrics[name] = {k: v for k, v in (("value", value), ("unit", unit), ("better", better)) if v is not None}
        if len(metrics) >= _MOST_METRICS:
            break
    return {"epoch": epoch, "step": step, "metrics": metrics}


def _place(document: Mapping[str, Any]) -> tuple[Decimal | None, int | None]:
    epoch, step = None, None
    for name, told in document.items():
        kind = _PLACES.get(name)
        value = _decimal(told) if kind else None
        if value is None or value < 0:
            continue
        if kind == "epoch":
            epoch = value
        elif value == value.to_integral_value() and value < 2**63:
            step = int(value)
    return epoch, step


def _decimal(value: Any) -> Decimal | None:
    """A finite number of a size that can be stored."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and not re.fullmatch(_NUMBER, value):
        return None
    try:
        found = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        return None
    return found if found.is_finite() and (not found or math.log10(abs(found)) < 300) else None


def _time(told: str | None, tz: tzinfo | None) -> datetime | None:
    if told is None:
        return None
    try:
        at = datetime.fromisoformat(told.replace("/", "-"))
        return (at if tz is None else at.replace(tzinfo=tz)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _finish(reading: Reading, points: _Points, path: str, begun: datetime, ended: datetime, *, timed: bool) -> None:
    if not points.all:
        reading.passed.append(Passed(path, "speaks of training, but no line has an epoch or a step with its loss"))
        return
    kept = points.all
    notes = [] if timed else [_TIME_NOTE]
    if len(kept) < points.seen:
        notes.append(f"{len(kept)} of its {points.seen} points are kept.")
    told = [{name: value for name, value in point.items() if value is not None} for point in kept]
    fact = {"name": _name(path), "points": told, "note": " ".join(notes) or None, "at": begun, "observed_at": ended}
    first = kept[0]
    reading.runs.append(Run(path, key_of(path, str(first["epoch"]), first["step"]), fact))


def _name(path: str) -> str:
    """The file's name, that of its folder where the file's says nothing."""
    stem = os.path.basename(path)
    for ending in (".gz", ".bz2", ".xz", ".log", ".jsonl", ".json", ".out", ".txt", ".err"):
        stem = stem.removesuffix(ending)
    folder = os.path.basename(os.path.dirname(os.path.abspath(path)))
    return (f"{folder}/{stem}" if stem.lower() in _PLAIN_NAMES and folder else stem)[:500]
