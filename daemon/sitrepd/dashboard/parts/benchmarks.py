"""The comparison: each configuration's value, its difference to the baseline, and which is best."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.compare import BEST_METRIC, Comparison, Row, compare
from sitrepd.benchmarks.metrics import describe, display_text
from sitrepd.benchmarks.runs import run_of, stored_samples
from sitrepd.benchmarks.tables import interval
from sitrepd.benchmarks.verdicts import Verdict, verdicts
from sitrepd.dashboard.view import View
from sitrepd.reporting import command_line

_MOST = 2000
_MOST_ROWS = 40
# Shown beside the metric that names the best, the first that was measured of each line.
_BESIDE = (
    ("accept_length", "acc_length", "accept_len"),
    ("accept_rate",),
    ("median_ttft_ms", "mean_ttft_ms"),
    ("median_tpot_ms", "mean_tpot_ms", "median_itl_ms", "mean_itl_ms"),
)


def look(view: View) -> dict[str, Any]:
    session = view.db.get(view.noun("session").table, view.session_id) if view.session_id else None
    metric = getattr(session, "best_metric", None) or BEST_METRIC
    told = list(reversed(view.told("benchmark", _MOST)))
    compared = compare([run_of(one) for one in told], metric)
    by_id = {one.id: one for one in told}
    rows = _most_telling(compared)
    sure = _verdicts(view, compared, rows)
    beside = [name for names in _BESIDE if (name := _measured(names, told, metric))]
    return {
        "comparison": compared,
        "count": len(told),
        "left_out": len(compared.rows) - len(rows),
        "commands": [(row.label, _command(view, row)) for row in compared.best],
        "beside": [(name, describe(name)[0]) for name in beside],
        "rows": [
            (row, one, _bar(row, compared), [_beside(by_id[row.ids[0]], name) for name in beside])
            for row, one in zip(rows, sure, strict=True)
        ],
        "interval": interval,
    }


def _verdicts(view: View, compared: Comparison, rows: list[Row]) -> list[Verdict]:
    return verdicts(compared, stored_samples(view.db, view.session_id, compared.metric), rows)


def _command(view: View, row: Row) -> str:
    """The command of the launch that a row ran against; "" where it is not recorded."""
    for public_id in row.launches:
        launch = view.db.get(view.noun("launch").table, int(public_id[1:]))
        line = command_line(launch.command, launch.argv, launch.env) if launch is not None else None  # type: ignore[attr-defined]
        if line:
            return line
    return ""


def _most_telling(compared: Comparison) -> list[Row]:
    """All rows in their order, or where they are many: baseline, best, and the latest."""
    rows = list(compared.rows)
    if len(rows) <= _MOST_ROWS:
        return rows
    marked = [row for row in rows[:-_MOST_ROWS] if row.baseline or row.best]
    return marked + rows[-_MOST_ROWS:]


def _bar(row: Row, compared: Comparison) -> tuple[float, float, str] | None:
    """(x, width, kind) of the difference, in hundredths of the column, whose middle is the baseline."""
    baseline = compared.baseline
    if baseline is None or row.difference is None or not baseline.value:
        return None
    differences = [abs(one.value - baseline.value) for one in compared.rows if one.difference is not None]
    widest = max(differences, default=Decimal(0))
    share = float((row.value - baseline.value) / widest) if widest else 0.0
    good = (share > 0) == (compared.better != "lower")
    kind = "same" if not share else "better" if good else "worse"
    return (50.0 + min(share, 0.0) * 48, max(abs(share) * 48, 0.8), kind)


def _measured(names: tuple[str, ...], told: list[Any], metric: str) -> str | None:
    return next((name for name in names if name != metric and any(name in one.metrics for one in told)), None)


def _beside(told: Any, name: str) -> str:
    found = told.metrics.get(name)
    return "" if found is None else display_text(found.value)
