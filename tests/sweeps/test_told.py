"""Sweeps that were told or imported: what their trials measured is worked out, and what they vary is said in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, col, select
from tests.checkpoints.telling import section_text, written

from sitrepd.cli.sweep_watch import say_status
from sitrepd.cli.sweeps import TABLE
from sitrepd.notices.news import is_awaited
from sitrepd.slices import load_registry
from sitrepd.sweeps import store, words
from sitrepd.sweeps.models import Sweep


def _benchmark(key: str, value: float, **more: Any) -> dict[str, Any]:
    metrics = {"output_throughput": {"value": value, "unit": "tok/s", "better": "higher"}}
    return {"type": "benchmark", "key": key, "metrics": metrics, **more}


_SWEEP = {
    "type": "sweep", "key": "w", "name": "pages", "state": "done", "parameters": {"page-size": {"from": 1, "to": 3}},
    "constraints": ["page_size != 4"], "template": "serve --tp 2",
}  # fmt: skip
_TOLD = (
    {"type": "session", "key": "s", "name": "told"},
    _benchmark("a", 100.0, name="run 1", baseline=True), _benchmark("b", 102.0, name="run 2"),
    _benchmark("c", 80.0), _benchmark("d", 120.0, name="run 2"),
    _SWEEP,
    {"type": "trial", "sweep": "w", "benchmarks": ["a", "b"], "state": "done", "name": "run 1"},
    {"type": "trial", "sweep": "w", "benchmarks": ["c"], "state": "done", "settings": {"page-size": 2, "x": None}},
    {"type": "trial", "sweep": "w", "benchmarks": ["d"], "state": "done", "name": "run 2"},
    {"type": "trial", "sweep": "w", "state": "planned", "name": "run 3"},
    {"type": "sweep", "key": "v", "name": "alone", "parameters": {"steps": [1, 2]}, "template": {"launch": "L3", "x": 1}},
)  # fmt: skip


def test_what_told_trials_measured_is_compared_and_none_is_taken_for_a_repeat_of_another(tmp_path: Path) -> None:
    told = "\n".join(section_text(written(tmp_path / "store", _TOLD), "sweeps"))
    assert "- W1 pages (done): 3 of 4 trials over\n  - Best by output_throughput: run 2, 120.0 tok/s, +18.8 %" in told
    assert "- Trials of W1: 4\n  - run 1: done B1 B2; 101.0 tok/s, mean of 2 runs\n" in told
    assert "  - page-size 2, x absent: done B3; 80.0 tok/s, -20.8 %" in told
    assert "  - run 3: planned\n  - Parameters: page-size 1 to 3\n  - Constraints: page_size != 4\n" in told
    assert "  - Command that is varied: serve --tp 2" in told
    assert told.startswith("- W2 alone\n  - Parameters: steps 1, 2\n  - Template: launch=L3, x=1\n- W1 pages")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"a": [None, "x", 1.5], "b": "c + 1"}, ["a absent, x, 1.5", "b = c + 1"]),
        ({"a": {"from": 1, "to": 9, "step": 2}}, ["a 1 to 9 in steps of 2"]),
        ({"a": {"why": 1}, "b": True, "c": []}, ['a = {"why": 1}', "b = true", "c"]),
        ("steps from 1 to 3", ["steps from 1 to 3"]),
        (["a", 2], ["a", "2"]),
        (None, []),
    ],
)
def test_parameters_of_any_shape_are_said_in_words(told: Any, said: list[str]) -> None:
    assert words.parameters(told) == said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (None, {}),
        ({"argv": ["a", "b c"], "cwd": "/w"}, {"command": "a 'b c'", "cwd": "/w"}),
        ({"command": "a  b", "argv": None}, {"command": "a  b"}),
        ({"from_launch": "L1"}, {"more": ["from_launch=L1"]}),
        ({"argv": "a b"}, {"more": ["argv=a b"]}),
        (["a"], {"command": '["a"]'}),
    ],
)
def test_a_template_of_any_shape_loses_nothing(told: Any, said: dict[str, Any]) -> None:
    assert words.template(told) == said


def test_a_sweep_and_trials_without_state_and_name_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    trial = {"id": "5", "benchmarks": ["B1"], "value": "562.75", "runs": 1, "best": True}
    say_status({"id": "W2", "metric": "output_throughput", "unit": "tok/s", "trials": [trial], "count": 1, "left": 0})
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == ("W2.", "Best by output_throughput: trial 5 (562.75, one run).")
    assert "None" not in "".join(lines)


def test_what_somebody_asked_for_meanwhile_is_not_undone(tmp_path: Path) -> None:
    """The runner acts on what it has read a moment ago."""
    told = [{"type": "session", "key": "s", "name": "told"}]
    told += [
        {"type": "sweep", "key": state, "name": state, "state": state} for state in ("planned", "paused", "stopped")
    ]

    def change(db: Session) -> None:
        for number in (1, 2, 3):
            store.begin(db, number)
        begun = [row.state for row in db.exec(select(Sweep).order_by(col(Sweep.id))).all()]
        for number in (1, 2, 3):
            store.wait_for_somebody(db, number, "GPU 0 is not free")
        waiting = [(row.state, row.why) for row in db.exec(select(Sweep).order_by(col(Sweep.id))).all()]
        assert begun == ["running", "paused", "stopped"]
        assert waiting == [(state, "GPU 0 is not free") for state in ("paused", "paused", "stopped")]

    written(tmp_path / "store", told, change)


def test_a_list_names_what_is_absent() -> None:
    column = dict(TABLE.columns)["PARAMETERS"]
    assert callable(column)
    assert (
        column({"parameters": {"steps": [None, 1, 2], "NCCL_ALGO": ["Ring"]}}) == "steps=absent, 1, 2, NCCL_ALGO=Ring"
    )
    assert [column({"parameters": one}) for one in (None, "any", {"a": None})] == [None, "any", "a=absent"]


def test_a_sweep_that_was_told_to_run_is_not_waited_for_and_one_that_runs_here_is(tmp_path: Path) -> None:
    told = (
        {"type": "session", "key": "s", "name": "told"},
        {**_SWEEP, "state": "running"},
        {**_SWEEP, "key": "own", "state": "planned"},
    )

    def change(db: Session) -> None:
        assert not is_awaited(db, load_registry(), 1)
        store.begin(db, 2)
        assert is_awaited(db, load_registry(), 1)

    written(tmp_path / "store", told, change)
