"""`sitrep compare`: the runs side by side, with their differences to the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "compare")
def compare(
    cli: Cli,
    metric: Annotated[str | None, typer.Option("--metric", help="By which metric; else the session's own.")] = None,
) -> None:
    """Compare the benchmarks of the session: value, difference to the baseline, and which is best."""
    cli.show(cli.client.get("/sessions/current/comparison", metric=metric), _say)


def _say(told: dict[str, Any]) -> None:
    columns: tuple[Column, ...] = (
        ("RUNS", "ids"), ("CONFIGURATION", "label"), (str(told["metric"]).upper(), _value),
        ("DIFFERENCE", "difference"), ("", "words"), ("LAUNCHES", "launches"),
        ("WHY NOT COMPARED", "why"), ("NOTES", "notes"),
    )  # fmt: skip
    output.table(told["rows"], columns, "No benchmarks yet.")
    for note in told.get("notes") or ():
        output.say(note)


def _value(row: Mapping[str, Any]) -> str:
    return f"{row['text']} {row['unit']}" if row.get("unit") else str(row["text"])
