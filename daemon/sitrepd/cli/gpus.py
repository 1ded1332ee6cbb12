"""`sitrep gpu`: the GPUs of the daemon's machine, now."""

from __future__ import annotations

from typing import Any

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "gpu")
def gpu(cli: Cli) -> None:
    """The latest reading of each GPU."""
    cli.show(cli.client.get("/gpus"), _say)


def _say(told: Any) -> None:
    found = told.get("data", []) if isinstance(told, dict) else told
    output.table(found, _COLUMNS, "No NVIDIA GPU found.")


_COLUMNS: tuple[Column, ...] = (("GPU", "gpu"), ("NAME", "name"))
