"""Runs that something speaks against are set apart, wherever they are told."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application

from sitrepd.benchmarks.marks import marks_of
from sitrepd.benchmarks.restore import restore
from sitrepd.sections import Section

_PATH = "/api/v1/sessions/current/comparison"


@pytest.mark.parametrize(
    ("told", "failed", "marks"),
    [
        (None, None, ()),
        ([], Decimal(0), ()),
        (["GPU 3 throttled"], Decimal(1), ("GPU 3 throttled", "1 request failed")),
        (["3 of 64 requests failed"], Decimal(3), ("3 of 64 requests failed",)),
    ],
)
def test_requests_that_failed_are_said_once(told: Any, failed: Any, marks: tuple[str, ...]) -> None:
    assert marks_of(told, failed) == marks


def _tell(client: TestClient, value: float, steps: int = 0, **more: Any) -> str:
    metrics = {"output_throughput": {"value": value, "unit": "tok/s"}} | more.pop("metrics", {})
    body = {"config": {"speculative_num_steps": steps}, "baseline": steps == 0, "metrics": metrics, **more}
    answer = client.post("/api/v1/benchmarks", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_a_marked_run_is_set_apart_from_its_repeats(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        for value in (10.0, 10.1, 9.9):
            _tell(client, value)
        marked = _tell(client, 20.0, marks=["a kernel was compiled during the run"])
        clean = [_tell(client, value, 2) for value in (12.0, 12.1, 11.9)]
        failed = _tell(client, 99.0, 2, metrics={"failed": 3})
        told = client.get(_PATH).json()
        rows = {tuple(row["ids"]): row for row in told["rows"]}
        assert rows[tuple(clean)]["best"]
        assert rows[tuple(clean)]["verdict"]["word"] == "better"
        assert rows[marked,]["words"] == ["marked"]
        assert rows[marked,]["verdict"]["marks"] == [f"{marked}: a kernel was compiled during the run"]
        assert rows[failed,]["verdict"]["marks"] == [f"{failed}: 3 requests failed"]
        assert not rows[failed,]["best"]
        # The repeats of the baseline that are not marked are one, so nothing is to be said of several.
        assert told["notes"] == []
        text = client.post("/api/v1/sessions/current/checkpoints").json()["markdown"]
        best = next(line for line in text.splitlines() if " to the baseline " in line)
        assert "12.0 tok/s output_throughput, +20.0 %" in best
        assert ", better, 95 % interval +1" in best
        assert f"| {failed} " in text
        assert f"{failed}: 3 requests failed" in text
        assert ">99<" not in client.get(f"{_PATH}/chart").text


def test_where_all_are_marked_the_best_of_them_is_told_with_its_marks(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        _tell(client, 10.0, marks=["throttled"])
        best = _tell(client, 12.0, 1, marks=["throttled", "2 requests failed"])
        rows = client.get(_PATH).json()["rows"]
        assert [row["best"] for row in rows] == [False, True]
        checkpoint = client.post("/api/v1/sessions/current/checkpoints").json()
        line = next(one for one in checkpoint["markdown"].splitlines() if " to the baseline " in one)
        assert "one run only: not known" in line
        assert f"{best}: throttled; {best}: 2 requests failed" in line


def test_marks_come_back_from_the_sections_of_a_checkpoint() -> None:
    row = {"kind": "row", "ids": ["B1", "B2"], "label": "x", "value": "1", "words": ["marked"],
           "marks": ["B1: throttled", "B2: 2 requests failed", "B1: 1 request failed"]}  # fmt: skip
    section = Section(name="benchmarks", title="", order=1, priority=1, items=[row], data={"metric": "m"})
    assert [line.get("marks") for line in restore(section)] == [
        ["throttled", "1 request failed"],
        ["2 requests failed"],
    ]
