"""`sitrep bench mapping`: which fields of one's own JSON or CSV are what, said once and kept by name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.verbs import Cli, noun, verb

app = noun("Mappings of your own JSON or CSV: which of its fields are what.")
Paths = list[str] | None


@verb(app, "add")
def add(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called; one of that name is replaced.")],
    metrics: Annotated[
        list[str],
        typer.Argument(
            metavar="METRIC=PATH",
            help="Such as output_throughput=stats.tps, median_ttft_ms=ttft_s*1000, or energy=joules[J].",
        ),
    ],
    config: Annotated[
        Paths, typer.Option("--config", metavar="NAME=PATH", help="A setting that is compared; may be repeated.")
    ] = None,
    workload: Annotated[
        Paths, typer.Option("--workload", metavar="NAME=PATH", help="What was asked; may be repeated.")
    ] = None,
    label: Annotated[str | None, typer.Option("--label", metavar="PATH", help="Where the run's name is.")] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="PATH", help="The list that has one run an item.")
    ] = None,
) -> None:
    """Keep a mapping: METRIC=PATH, where PATH is `results.0.tps`, or the title of a column of CSV.

    `PATH*FACTOR` brings another unit to that of the metric's name, `PATH[UNIT]` names the unit.
    """
    told: dict[str, Any] = {
        "metrics": values.text_pairs(metrics), "config": values.text_pairs(config or []),
        "workload": values.text_pairs(workload or []), "label": label, "rows": rows,
    }  # fmt: skip
    answer = cli.client.put(f"/benchmarks/mappings/{name}", {key: one for key, one in told.items() if one})
    cli.show(answer, lambda told: output.say(f"{told['name']} kept."))


@verb(app, "list")
def list_mappings(cli: Cli) -> None:
    """List the mappings, by name."""
    columns: tuple[output.Column, ...] = (
        ("NAME", "name"), ("METRICS", "metrics"), ("CONFIG", "config"), ("WORKLOAD", "workload"), ("LABEL", "label"),
        ("ROWS", "rows"),
    )  # fmt: skip
    answer = cli.client.get("/benchmarks/mappings")
    cli.show(answer, lambda told: output.table(told["data"], columns, "No mappings yet."))
