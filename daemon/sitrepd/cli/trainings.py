"""`sitrep training`: metrics of training runs, by epoch or step."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_add, add_edit, add_list
from sitrepd.cli.verbs import Cli, noun, verb

_SHOWN = 40


def _latest(told: Mapping[str, Any]) -> str:
    points = told.get("points") or []
    if not points:
        return ""
    return f"{_place(points[-1])}: {output.measures(points[-1]['metrics'])}"


def _place(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {point[name]}" for name in ("epoch", "step") if point.get(name) is not None)


TABLE = NounTable(
    "training",
    "trainings",
    (
        Field("name", "What it is called.", argument=True),
        Field("model", "Id of a model card, or a path.", metavar="M|PATH"),
        Field("points", "epoch=4,accept_rate=0.47 or step=900,loss=1.2:nats; may be repeated.", values.points,
              many=True, option="point", metavar="POINT"),
        Field("data", "What it was trained on (text, or JSON).", values.loose),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("MODEL", "model"), ("LATEST", _latest), ("NOTE", "note"), ("AT", "at")),
)  # fmt: skip
Metric = Annotated[str | None, typer.Option("--metric", help="By which metric; the one that matters most if absent.")]

app = noun("Training runs: metrics by epoch or step.")
add_list(app, TABLE)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId, metric: Metric = None) -> None:
    """The points of one training run, and which is best."""
    cli.show(cli.client.get(f"/trainings/{fact_id}"), lambda told: _say(told, metric))


add_add(app, TABLE)
add_edit(app, TABLE)


@verb(app, "read")
def read(
    cli: Cli,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A log of SpecForge, TorchSpec or the HF Trainer, its trainer_state.json or folder, or JSON Lines.",
        ),
    ],
    name: Annotated[str | None, typer.Option("--name", help="What it is called.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="M|PATH", help="What is trained: a model card, or a path.")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", help="What it is trained on.")] = None,
    into: Annotated[
        str | None, typer.Option("--into", metavar="T", help="Read a run that goes on anew, into this one.")
    ] = None,
    metric: Metric = None,
) -> None:
    """Read the metrics of a training run by epoch or step, and say which is best."""
    from sitrepd.benchmarks.trainings.reading import read_training

    found = read_training(Path(file), Path(file).name)
    told = {
        "points": [point.told() for point in found.points], "note": found.note, "name": name, "model": model,
        "data": data, "provenance": f"imported:{Path(file).name}",
    }  # fmt: skip
    body = {key: value for key, value in told.items() if value is not None}
    if into is None:
        answer = cli.client.post("/trainings", {"name": Path(file).stem, **body})
    else:
        body.pop("provenance")
        answer = cli.client.patch(f"/trainings/{into}", body)

    def stored(fact: dict[str, Any]) -> None:
        output.say(f"{fact['id']} stored, by {found.tool}: {found.count} points.")
        _say(fact, metric)

    cli.show(answer, stored)


@verb(app, "curve")
def curve(
    cli: Cli,
    fact_id: FactId,
    out: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where it goes: .svg or .png.")] = "-",
    metric: Metric = None,
) -> None:
    """Draw the curve of a metric, with its best point."""
    kind = "png" if out.lower().endswith(".png") else "svg"
    output.write_file(cli.client.get(f"/trainings/{fact_id}/chart", metric=metric, format=kind).body, out)


def _say(told: Mapping[str, Any], metric: str | None = None) -> None:
    from sitrepd.benchmarks.trainings.best import best

    points = told.get("points") or []
    names = dict.fromkeys(name for point in points for name in point["metrics"])
    shown = points if len(points) <= _SHOWN else [*points[: _SHOWN // 2], *points[-_SHOWN // 2 :]]
    columns = [(name.upper(), partial(_measured, name)) for name in names]
    output.say(", ".join(part for part in (told["id"], told.get("name"), told.get("model")) if part))
    output.table(shown, (("EPOCH", "epoch"), ("STEP", "step"), *columns), "No points yet.")
    if len(points) > len(shown):
        output.say(f"{len(points) - len(shown)} points between are left out here; --json has them.")
    top = best(_places(points), metric)
    if top is not None:
        output.say(f"Best {top.metric.name}: {top.metric.value} at {top.place}.")
    elif metric is not None:
        output.say(f"Which {metric} is best is not known: fewer than two points have it, or neither way is better.")
    if told.get("note"):
        output.say(str(told["note"]))


def _measured(name: str, point: Mapping[str, Any]) -> str:
    return output.measure(point["metrics"][name]) if name in point["metrics"] else ""


def _places(points: list[Any]) -> list[Any]:
    from decimal import Decimal

    from sitrepd.benchmarks.metrics import Metric as Measured
    from sitrepd.benchmarks.trainings.best import Place

    def number(value: Any) -> Decimal | None:
        return None if value is None else Decimal(str(value))

    return [
        Place(
            number(point.get("epoch")), point.get("step"),
            {
                name: Measured(name, Decimal(str(one["value"])), one.get("unit"), one.get("better"))
                for name, one in point["metrics"].items()
            },
        )
        for point in points
    ]  # fmt: skip
