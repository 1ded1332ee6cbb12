"""Points as columns: each comes back as it was told, and what a report needs of many is found without all of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from sitrepd.benchmarks.models import TrainingBatch, TrainingPoint
from sitrepd.benchmarks.trainings import batches


def point(metrics: dict[str, Any], **place: Any) -> TrainingPoint:
    return TrainingPoint.model_validate({"metrics": metrics, **place})


def test_points_that_measured_the_same_share_a_row_and_come_back_as_told() -> None:
    loss = {"value": Decimal("2.50"), "unit": "nats", "better": "lower"}
    told = [
        point({"loss": loss, "acc": {"value": Decimal("0.10")}}, step=10),
        point({"loss": loss | {"value": Decimal("2.10")}, "acc": {"value": Decimal("0.2")}}, step=20),
        point({"acc": {"value": Decimal("0.30")}}, epoch=Decimal("1.50"), step=30),
        point({"loss": {"value": Decimal("1E-7")}}, epoch=Decimal(2)),
    ]
    rows = batches.rows_of(told)
    assert [(row.steps, row.epochs, row.metrics, row.units) for row in rows] == [
        ([10, 20], None, {"loss": ["2.50", "2.10"], "acc": ["0.10", "0.2"]}, {"loss": ["nats", "lower"]}),
        ([30], ["1.50"], {"acc": ["0.30"]}, {}),
        (None, ["2"], {"loss": ["1e-07"]}, {}),
    ]
    assert batches.points_of(rows) == told


def test_a_secret_in_a_name_or_unit_is_not_stored() -> None:
    secret = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3z"
    (row,) = batches.rows_of([point({secret: {"value": 1, "unit": secret}}, step=1)])
    assert secret not in f"{row.metrics} {row.units}"


def test_where_nothing_was_measured_there_is_no_point() -> None:
    rows = [
        TrainingBatch(steps=[1, 2, 3], metrics={"loss": ["3", None, "1"], "acc": [None, None, "0.5"]}, units={}),
        TrainingBatch(steps=[4, 5], metrics={"loss": ["4", "0.5"]}, units={"loss": [None, "lower"]}),
    ]
    assert batches.count(rows) == 4
    assert [(one.step, [value.text for value in one.values]) for one in batches.last(rows, 3)] == [
        (3, ["1", "0.5"]), (4, ["4"]), (5, ["0.5"])
    ]  # fmt: skip
    assert dict(batches.measured(rows)) == {"loss": 4, "acc": 1}
    assert [(one.step, one.values[0].text) for one in batches.extremes(rows, "loss")] == [
        (1, "3"), (3, "1"), (4, "4"), (5, "0.5")
    ]  # fmt: skip
    assert [one.step for one in batches.points_of(rows)] == [1, 3, 4, 5]
