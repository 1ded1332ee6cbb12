"""`sitrep repro` and `sitrep bundle`: a launch written down for somebody else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sitrepd.cli import output
from sitrepd.cli.again import environment
from sitrepd.cli.client import Answer
from sitrepd.cli.stop import Launch
from sitrepd.cli.verbs import Cli, verb
from sitrepd.errors import SitrepError

app = typer.Typer()
Out = Annotated[str | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")]


class NotWritten(SitrepError):
    title = "The file cannot be written"


@verb(app, "repro")
def repro(
    cli: Cli,
    fact_id: Annotated[str, typer.Argument(metavar="L|B", help="A launch, or a benchmark: its launch, and its run.")],
    out: Out = None,
) -> None:
    """Write a bash script that sets up and runs a launch again: versions, environment, checks, the exact command.

    Secrets are references that must be set when it is run.
    """
    launch, benchmark = fact_id, None
    if fact_id.upper().startswith("B"):
        found = cli.client.get(f"/benchmarks/{fact_id}").data
        launch, benchmark = found.get("launch"), found["id"]
        if launch is None:
            raise SitrepError(f"{benchmark} names no launch, so there is nothing to run again.")
    answer = cli.client.get(f"/launches/{launch}/repro", benchmark=benchmark)
    if cli.json:
        output.as_json({"launch": launch, "benchmark": benchmark, "path": out, "script": answer.text})
    if out is not None:
        path = _write(out, answer, 0o755)
        if not cli.json:
            output.say(f"Written to {path}.")
    elif not cli.json:
        output.write_bytes(answer.body)


@verb(app, "bundle")
def bundle(cli: Cli, launch: Launch, out: Out = None) -> None:
    """Write an archive for a bug report: the log around the cause, versions, topology, command, phases, diagnosis.

    Secrets are left out, also the values of those in this shell's environment. Without -o it is written here, as
    sitrep-L14.tar.gz.
    """
    answer = cli.client.post(f"/launches/{launch}/bundle", {"caller_env": environment()} if cli.is_local else {})
    path = _write(out or f"sitrep-{launch.upper()}.tar.gz", answer, 0o644)
    if cli.json:
        output.as_json({"launch": launch, "path": str(path), "bytes": len(answer.body)})
    else:
        output.say(f"Written to {path}: {len(answer.body)} bytes. Look through it before you send it.")


def _write(told: str, answer: Answer, mode: int) -> Path:
    """Whole or not at all."""
    path = Path(told).expanduser().absolute()
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(answer.body)
        partial.chmod(mode)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True) if partial.parent.is_dir() else None
        raise NotWritten(f"{path} cannot be written: {error.strerror or error}.") from error
    return path
