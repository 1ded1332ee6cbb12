"""A comparison as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from sitrepd.benchmarks.compare import Row
from sitrepd.benchmarks.decide import Decided, Decision
from sitrepd.benchmarks.verdicts import Verdict
from sitrepd.figures import short_text

_DANGEROUS = ("=", "+", "-", "@", "\t", "\r")


def as_csv(told: Decision) -> str:
    """With a line of titles; numbers are plain, and told text that a spreadsheet would compute is quoted by a '."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    titles = [
        "runs", "launches", "label", *told.keys, told.comparison.metric, "unit", "values", "difference_percent",
        "low_percent", "high_percent", "verdict", "best", "baseline", "comparable", "outliers",
        "mean_output_throughput", f"mean_{told.latency or 'latency'}", "pareto", "cost_per_million",
        "joules_per_token", "why", "notes",
    ]  # fmt: skip
    writer.writerow(map(_safe, titles))
    for row, one in zip(told.comparison.rows, told.rows, strict=True):
        writer.writerow(map(_safe, _line(told, row, one)))
    return out.getvalue()


def _line(told: Decision, row: Row, one: Decided) -> list[Any]:
    verdict = one.verdict
    difference = row.difference.removesuffix(" %").removeprefix("+") if row.difference else None
    return [
        " ".join(row.ids), " ".join(row.launches), row.label, *(one.settings.get(key) for key in told.keys), row.text,
        row.unit, " ".join(row.texts), _number(difference), _short(verdict.low), _short(verdict.high), verdict.word,
        row.best, row.baseline, row.comparable, " ".join(verdict.outliers), _short(one.throughput),
        _short(one.latency), one.pareto,
        _short(one.cost_per_million), _short(one.joules_per_token), row.why, " ".join((*row.notes, *verdict.marks)),
    ]  # fmt: skip


def _safe(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_DANGEROUS):
        try:
            float(value)
        except ValueError:
            return f"'{value}"
    return "" if value is None else value


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def as_markdown(told: Decision) -> str:
    """A table of what people look at; columns that are empty throughout are left out."""
    columns: list[tuple[str, list[str]]] = [
        ("runs", [", ".join(row.ids) for row in told.comparison.rows]),
        ("configuration", [row.label for row in told.comparison.rows]),
        *((key, [_cell(one.settings.get(key)) for one in told.rows]) for key in told.keys),
        (told.comparison.metric, [f"{short_text(row.text)} {row.unit or ''}".strip() for row in told.comparison.rows]),
        ("difference", [row.difference or "" for row in told.comparison.rows]),
        ("95 % interval", [interval(one.verdict) for one in told.rows]),
        ("verdict", [meaning(row, one) for row, one in zip(told.comparison.rows, told.rows, strict=True)]),
        (told.latency or "latency", [_cell(_short(one.latency)) for one in told.rows]),
        ("Pareto", ["yes" if one.pareto else "" for one in told.rows]),
        ("cost of 1 M tokens", [_cell(_short(one.cost_per_million)) for one in told.rows]),
        ("J/token", [_cell(_short(one.joules_per_token)) for one in told.rows]),
        ("why not compared", [row.why or "" for row in told.comparison.rows]),
        ("notes", [" ".join((*row.notes, *one.verdict.marks)) for row, one in
                   zip(told.comparison.rows, told.rows, strict=True)]),
    ]  # fmt: skip
    shown = [(title, cells) for title, cells in columns if any(cells)]
    if not shown:
        return "No benchmarks yet.\n"
    lines = [[title for title, _ in shown], ["---"] * len(shown), *zip(*(cells for _, cells in shown), strict=True)]
    notes = "".join(f"\n{_escaped(note)}\n" for note in told.comparison.notes)
    return "\n".join(_row(line) for line in lines) + "\n" + notes


def interval(verdict: Verdict) -> str:
    """+3.9 to +8.0 %"""
    low, high = verdict.low, verdict.high
    return "" if low is None or high is None else f"{low:+.1f} to {high:+.1f} %"


def meaning(row: Row, one: Decided) -> str:
    """The verdict with the words of the row, and what it would be without outliers."""
    verdict = one.verdict
    said = [*row.words, *([verdict.word] if verdict.word else ())]
    if verdict.outliers:
        rest = verdict.without_outliers
        then = f": {rest.word} without" if rest is not None and rest.word and rest.word != verdict.word else ""
        said.append(f"{', '.join(verdict.outliers)} is an outlier{then}")
    return ", ".join(said)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
