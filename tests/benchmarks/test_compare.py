from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.perf.pure import runs

from sitrepd.benchmarks.compare import Run, compare
from sitrepd.benchmarks.labels import config_label
from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.parsers import read_results

DATA = Path(__file__).parents[1] / "data" / "bench"
EAGLE = {"speculative_algorithm": "EAGLE3"}


def _run(number: int, value: str, name: str | None = None, **more: Any) -> Run:
    return Run(f"B{number}", {"output_throughput": metric("output_throughput", Decimal(value))}, name, **more)


def _session() -> list[Run]:
    return [
        _run(1, "88.8", "baseline", baseline=True, config={"speculative_algorithm": None}),
        _run(2, "85.1", "EAGLE-3, 1 step", config=EAGLE | {"speculative_num_steps": 1}),
        _run(3, "94.0", "EAGLE-3, 2 steps", config=EAGLE | {"speculative_num_steps": 2}, launch="L14"),
        _run(4, "86.7", "EAGLE-3, 5 steps", config=EAGLE | {"speculative_num_steps": 5}),
    ]


def test_the_curve_over_steps() -> None:
    result = compare(_session())
    assert [(r.label, r.text, r.unit, r.difference) for r in result.rows] == [
        ("baseline", "88.8", "tok/s", None),
        ("EAGLE-3, 1 step", "85.1", "tok/s", "-4.2 %"),
        ("EAGLE-3, 2 steps", "94.0", "tok/s", "+5.9 %"),
        ("EAGLE-3, 5 steps", "86.7", "tok/s", "-2.4 %"),
    ]
    assert [(r.ids, r.launches, r.words) for r in result.best] == [(("B3",), ("L14",), ("best", "one run"))]
    assert result.baseline is not None
    assert result.baseline.words == ("baseline",)
    assert (result.better, result.notes) == ("higher", ())


def test_without_names_a_configuration_is_called_by_what_differs() -> None:
    runs = [
        Run(r.id, r.metrics, None, r.baseline, config=r.config | {"tp_size": 8, "dtype": "auto"}) for r in _session()
    ]
    assert [row.label for row in compare(runs).rows] == [
        "no speculation", "EAGLE3, 1 step", "EAGLE3, 2 steps", "EAGLE3, 5 steps",
    ]  # fmt: skip
    sizes = [_run(1, "1", config={"tp_size": 8, "dtype": "auto"}), _run(2, "2", config={"tp_size": 4, "dtype": "auto"})]
    assert [row.label for row in compare(sizes).rows] == ["tp_size=8", "tp_size=4"]
    assert [row.label for row in compare([_run(7, "1")]).rows] == ["B7"]


def test_a_tree_of_drafts_is_named_by_its_width_and_size() -> None:
    tree = EAGLE | {"speculative_num_steps": 3, "speculative_eagle_topk": 4, "speculative_num_draft_tokens": 16}
    assert config_label(tree) == "EAGLE3, 3 steps, topk 4, 16 draft tokens"
    chain = tree | {"speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}
    assert config_label(chain) == "EAGLE3, 3 steps"
    assert config_label({"tp_size": 8, "chunks": [1, 2]}) == ""
    runs = [_run(1, "1", config={"chunks": [1, 2]}), _run(2, "2", config={"chunks": [1, 3]})]
    assert [row.label for row in compare(runs).rows] == ["chunks=[1, 2]", "chunks=[1, 3]"]


def test_repeats_count_with_their_mean() -> None:
    base, spec = {"speculative_algorithm": None}, EAGLE | {"speculative_num_steps": 2}
    runs = [
        _run(1, "80.0", "base", baseline=True, config=base),
        _run(2, "100.0", "base", config=base),
        _run(3, "94.0", "two", config=spec, launch="L1"),
        _run(4, "94.5", "two, run 2", config=spec, launch="L2"),
        _run(5, "95.0", "two #3", config={"speculative_num_steps": Decimal(2), **EAGLE}, launch="L1"),
    ]
    result = compare(runs)
    assert [(r.ids, r.text, r.difference) for r in result.rows] == [
        (("B1", "B2"), "90.0", None),
        (("B3", "B4", "B5"), "94.5", "+5.0 %"),
    ]
    assert result.rows[1].label == "two"
    assert result.rows[1].texts == ("94.0", "94.5", "95.0")
    assert result.rows[1].launches == ("L1", "L2")
    assert result.rows[1].words == ("best", "mean of 3 runs")


def test_runs_told_under_different_names_are_not_repeats() -> None:
    runs = [_run(1, "90", "NCCL ring", config=EAGLE), _run(2, "95", "NCCL tree", config=EAGLE), _run(3, "96")]
    assert [row.ids for row in compare(runs).rows] == [("B1",), ("B2",), ("B3",)]
    assert [row.ids for row in compare([_run(1, "90"), _run(2, "90")]).rows] == [("B1",), ("B2",)]


def test_ties_are_kept() -> None:
    result = compare([*_session(), _run(5, "94.00", "NCCL tuned", config=EAGLE | {"speculative_num_steps": 3})])
    assert [row.ids for row in result.best] == [("B3",), ("B5",)]
    assert result.rows[4].text == "94.00"


@pytest.mark.parametrize(
    ("flags", "word", "difference"),
    [
        ({"comparable": False, "note": "another machine"}, "not comparable", None),
        ({"superseded": True}, "superseded", "+35.1 %"),
    ],
)  # fmt: skip
def test_what_does_not_count_is_never_best_and_says_so(
    flags: dict[str, Any], word: str, difference: str | None
) -> None:
    result = compare([*_session(), _run(5, "120.0", "cheat", **flags)])
    assert [row.ids for row in result.best] == [("B3",)]
    assert word in result.rows[4].words
    assert result.rows[4].difference == difference
    assert result.rows[4].notes == ((flags["note"],) if "note" in flags else ())


def test_a_run_that_does_not_count_is_no_repeat_of_one_that_does() -> None:
    config = EAGLE | {"speculative_num_steps": 2}
    result = compare([*_session(), _run(5, "10.0", "EAGLE-3, 2 steps", config=config, comparable=False)])
    assert [row.text for row in result.best] == ["94.0"]


def test_no_baseline_gives_no_differences() -> None:
    result = compare(_session()[1:])
    assert {row.difference for row in result.rows} == {None}
    assert result.notes == ("No run is marked as the baseline, so no differences are given.",)
    assert [row.ids for row in result.best] == [("B3",)]


def test_another_workload_is_not_compared() -> None:
    workload = {"random_input_len": 256, "max_concurrency": 4}
    same = {"max_concurrency": 4.0, "random_input_len": Decimal(256)}
    runs = [
        _run(1, "88.8", "baseline", baseline=True, workload=workload),
        _run(2, "94.0", "two", workload=same),
        _run(3, "700.0", "two, 64 at once", workload=workload | {"max_concurrency": 64}),
        _run(4, "99.0", "two, told"),
    ]
    result = compare(runs)
    assert [(r.difference, r.why) for r in result.rows] == [
        (None, None),
        ("+5.9 %", None),
        (None, "another workload than the baseline"),
        (None, "its workload is not recorded"),
    ]
    assert [row.ids for row in result.best] == [("B2",)]
    alone = compare(runs[1:])
    assert alone.best == ()
    assert alone.notes[1] == "The runs have different workloads or units, so none is named best."


def test_the_direction_of_the_metric_decides() -> None:
    def told(number: int, value: str, better: Any = None, name: str = "median_ttft_ms") -> Run:
        return Run(f"B{number}", {name: Metric(name, Decimal(value), "ms", better)}, f"run of {number}", number == 1)

    result = compare([told(1, "20.0"), told(2, "18.0"), told(3, "30.0")], "median_ttft_ms")
    assert [row.ids for row in result.best] == [("B2",)]
    assert result.rows[1].difference == "-10.0 %"
    unknown = compare([told(1, "20", name="fuzz"), told(2, "18", name="fuzz")], "fuzz")
    assert unknown.best == ()
    assert unknown.notes == ("Whether more or less fuzz is better was not told, so none is named best.",)
    known = compare([told(1, "20", "higher", "fuzz"), told(2, "18", "higher", "fuzz")], "fuzz")
    assert [row.ids for row in known.best] == [("B1",)]


def test_another_unit_is_not_compared() -> None:
    slow = Run(
        "B5", {"output_throughput": Metric("output_throughput", Decimal("5640"), "tok/min", "higher")}, "per minute"
    )
    result = compare([*_session(), slow])
    assert result.rows[4].why == "in tok/min, the baseline in tok/s"
    assert [row.ids for row in result.best] == [("B3",)]


def test_a_baseline_that_cannot_serve() -> None:
    zero = compare([_run(1, "0", "baseline", baseline=True), _run(2, "3", "other")])
    assert [row.difference for row in zero.rows] == [None, None]
    assert zero.rows[1].why == "the baseline is 0"
    void = compare([_run(1, "88.8", "baseline", baseline=True, comparable=False), _run(2, "94.0", "two")])
    assert void.baseline is None
    assert void.notes[0].startswith("The baseline B1 has no output_throughput, is superseded or is not comparable")
    assert [row.ids for row in void.best] == [("B2",)]


def test_the_last_of_several_baselines_is_taken_and_named() -> None:
    result = compare([*_session(), _run(5, "90.0", "baseline on the new driver", baseline=True)])
    assert result.baseline is not None
    assert result.baseline.ids == ("B5",)
    assert result.rows[2].difference == "+4.4 %"
    assert "B1, B5" in result.notes[0]


def test_runs_without_the_metric_are_named() -> None:
    result = compare([*_session(), Run("B9", {}, "failed")])
    assert len(result.rows) == 4
    assert result.notes == ("Without output_throughput: B9.",)
    assert compare([]).rows == ()
    assert compare([]).notes == ()


def test_recorded_runs_of_a_real_server() -> None:
    runs = []
    for number, name in enumerate(("base", "eagle3-2-steps", "eagle3-3-steps"), 1):
        path = DATA / f"sglang-0.5.16-{name}.jsonl"
        [parsed] = read_results(path.read_bytes(), path.name)
        metrics = {m.name: m for m in parsed.metrics}
        runs.append(Run(f"B{number}", metrics, None, number == 1, config=parsed.config, workload=parsed.workload))
    result = compare(runs)
    assert [(r.label, r.difference, r.best) for r in result.rows] == [
        ("no speculation", None, True), ("EAGLE3, 2 steps", "-41.2 %", False), ("EAGLE3, 3 steps", "-36.3 %", False),
    ]  # fmt: skip
    assert [r.ids for r in compare(runs, "median_ttft_ms").best] == [("B1",)]


def test_a_thousand_runs_are_grouped_by_configuration() -> None:
    assert len(compare(runs(1000)).rows) == 770
