"""`sitrep diagnose`: why a server failed, from its log alone, without a daemon."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import SitrepError

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis import Diagnosis

app = typer.Typer()


class LogUnreadable(SitrepError):
    status = 422
    title = "The log cannot be read"


@verb(app, "diagnose")
def diagnose(
    cli: Cli,
    logfile: Annotated[
        str,
        typer.Argument(
            metavar="LOGFILE", help="The log of a server, of any machine, packed or not; - reads it from a pipe."
        ),
    ],
    model_folder: Annotated[
        str | None,
        typer.Option("--model-folder", metavar="DIR", help="Where the model lies here, to look for missing shards."),
    ] = None,
) -> None:
    """Say why a server failed and what to do, from its log alone; without a daemon."""
    from sitrepd.launches import diagnosis

    source = sys.stdin.buffer if logfile == "-" else logfile
    try:
        told = diagnosis.diagnose(source, model_folder=model_folder)
    except OSError as error:
        raise LogUnreadable(f"{logfile} cannot be read: {error.strerror or error}.") from error
    if cli.json:
        output.as_json(told.to_json())
    else:
        _say(told)


def _say(told: Diagnosis) -> None:
    state = f"{told.state}, {told.phase}" if told.phase else told.state
    output.say(f"{told.summary}")
    output.say(f"State: {state}. Category: {told.category or 'none'}.")
    if told.cause:
        output.say(f"Cause: {told.cause}")
    if told.fix:
        output.say(f"Fix:   {told.fix}")
    for one in told.evidence:
        output.say(f"{one.line:>7}  {one.text}" if one.line else f"         {one.text}")
