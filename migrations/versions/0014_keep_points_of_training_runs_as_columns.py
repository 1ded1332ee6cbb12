"""keep points of training runs as columns"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_AT_ONCE = 1000
_OLD = "SELECT training_id, point, epoch, step, name, text, unit, better FROM training_metric ORDER BY training_id, id"
_NEW = "SELECT training_id, steps, epochs, metrics, units FROM training_batch ORDER BY training_id, id"


def upgrade() -> None:
    op.create_table(
        "training_batch",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("training_id", sa.Integer(), nullable=False),
        sa.Column("steps", sa.JSON(), nullable=True),
        sa.Column("epochs", sa.JSON(), nullable=True),
        sa.Column("metrics", sa.JSON(), nullable=False),
        sa.Column("units", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["training_id"], ["training.id"], name=op.f("fk_training_batch_training_id_training")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_training_batch")),
    )
    rows = op.get_bind().execute(sa.text(_OLD))
    for batch in _batches(rows):
        op.get_bind().execute(
            sa.text(
                "INSERT INTO training_batch (training_id, steps, epochs, metrics, units) "
                "VALUES (:training, :steps, :epochs, :metrics, :units)"
            ),
            batch,
        )
    with op.batch_alter_table("training_batch", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_training_batch_training_id"), ["training_id"], unique=False)
    with op.batch_alter_table("training_metric", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_training_metric_training_id"))
    op.drop_table("training_metric")


def _batches(rows: Any) -> Iterator[dict[str, Any]]:
    """Points of one training run that follow each other and measured the same."""
    points = (list(of) for _, of in groupby(rows, lambda row: (row.training_id, row.point)))
    for (training, measured), alike in groupby(points, _measured):
        while told := list(islice(alike, _AT_ONCE)):
            yield {
                "training": training,
                "steps": json.dumps([point[0].step for point in told]),
                "epochs": json.dumps([point[0].epoch for point in told]),
                "metrics": _json({name: [point[at].text for point in told] for at, (name, *_) in enumerate(measured)}),
                "units": _json({name: [unit, better] for name, unit, better in measured if unit or better}),
            }


def _measured(point: list[Any]) -> tuple[int, tuple[tuple[str, str | None, str | None], ...]]:
    return point[0].training_id, tuple((row.name, row.unit, row.better) for row in point)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def downgrade() -> None:
    op.create_table(
        "training_metric",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("name", sa.VARCHAR(), nullable=False),
        sa.Column("text", sa.VARCHAR(), nullable=False),
        sa.Column("value", sa.FLOAT(), nullable=False),
        sa.Column("unit", sa.VARCHAR(), nullable=True),
        sa.Column("better", sa.VARCHAR(), nullable=True),
        sa.Column("training_id", sa.INTEGER(), nullable=False),
        sa.Column("point", sa.INTEGER(), nullable=False),
        sa.Column("epoch", sa.VARCHAR(), nullable=True),
        sa.Column("step", sa.INTEGER(), nullable=True),
        sa.ForeignKeyConstraint(["training_id"], ["training.id"], name=op.f("fk_training_metric_training_id_training")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_training_metric")),
    )
    for training, batches in groupby(op.get_bind().execute(sa.text(_NEW)).all(), lambda row: row.training_id):
        for number, (epoch, step, values) in enumerate(_points(batches)):
            told = [
                {"name": name, "text": text, "value": float(text), "unit": unit, "better": better,
                 "training": training, "point": number, "epoch": epoch, "step": step}
                for name, text, unit, better in values
            ]  # fmt: skip
            op.get_bind().execute(
                sa.text(
                    "INSERT INTO training_metric (name, text, value, unit, better, training_id, point, epoch, step) "
                    "VALUES (:name, :text, :value, :unit, :better, :training, :point, :epoch, :step)"
                ),
                told,
            )
    with op.batch_alter_table("training_metric", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_training_metric_training_id"), ["training_id"], unique=False)
    with op.batch_alter_table("training_batch", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_training_batch_training_id"))
    op.drop_table("training_batch")


def _points(batches: Any) -> Iterator[tuple[str | None, int | None, list[tuple[Any, ...]]]]:
    for row in batches:
        metrics, units = json.loads(row.metrics), json.loads(row.units)
        length = len(next(iter(metrics.values()), ()))
        steps, epochs = (json.loads(told or "null") or [None] * length for told in (row.steps, row.epochs))
        for at in range(length):
            values = [
                (name, column[at], *units.get(name, (None, None)))
                for name, column in metrics.items()
                if column[at] is not None
            ]
            if values:
                yield epochs[at], steps[at], values
