"""`sitrep run`: runs a command and keeps it, with what it printed, how it ended, and the results that it left."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from sitrepd.agents.models import OUTPUT_MOST
from sitrepd.cli import output
from sitrepd.cli.client import Refused
from sitrepd.cli.running import Outcome, run
from sitrepd.cli.verbs import REFUSED, Cli, verb
from sitrepd.errors import SitrepError

app = typer.Typer()
_READ_BYTES = 4 << 20
_NOT_FOUND, _NOT_STARTED = 127, 126


@verb(app, "run", context_settings={"ignore_unknown_options": True})
def run_command(
    cli: Cli,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND…", help="Words of a program, or one shell command line in quotes.")
    ],
    artifact: Annotated[
        list[str] | None, typer.Option("--artifact", metavar="PATH", help="A file that it leaves; may be repeated.")
    ] = None,
    launch: Annotated[
        str | None, typer.Option("--launch", metavar="L", help="The server that its results were measured on.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What its result is called.")] = None,
) -> None:
    """Run a command as it is, and keep its words, output, exit status and duration: `sitrep run -- COMMAND`.

    Results of benchmarks are looked for: the file that `sglang.bench_serving` wrote, else what it printed. The
    exit status is that of the command.
    """
    folder = _folder(cli)
    words = command if len(command) > 1 else [shutil.which("bash") or "/bin/sh", "-c", command[0]]
    copy = Path(tempfile.mkstemp(prefix="run-", suffix=".log", dir=folder)[1])
    before = _files_named(command)
    try:
        outcome = run(words, copy)
    except OSError as error:
        copy.unlink(missing_ok=True)
        output.warn(f"Error: {command[0]} cannot be run: {error.strerror}.")
        raise typer.Exit(_NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED) from error
    try:
        _keep(cli, command, outcome, copy, artifact or [], {"launch": launch, "label": name}, before)
    except SitrepError as error:
        output.warn(f"Error: the run was not recorded: {error.detail} Its output is in {copy}.")
        raise typer.Exit(outcome.exit_code or REFUSED) from error
    raise typer.Exit(outcome.exit_code)


def _folder(cli: Cli) -> Path:
    """Outputs are kept in the store's folder, also where the daemon is on another machine."""
    folder = cli.store / "runs"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _keep(
    cli: Cli, command: Sequence[str], outcome: Outcome, copy: Path, artifacts: list[str], about: dict[str, Any],
    before: dict[str, int],
) -> None:  # fmt: skip
    printed = _end_of(copy)
    results = [*_artifacts(cli, artifacts), *_benchmarks(cli, command, printed, about, before, outcome)]
    told: dict[str, Any] = {
        "command": command[0] if len(command) == 1 else shlex.join(command),
        "kind": _kind(command),
        "cwd": os.getcwd(),
        "exit_code": outcome.exit_code,
        "duration_ms": outcome.duration_ms,
        "output": printed[-OUTPUT_MOST:],
        "output_path": str(copy),
        "results": results,
    }
    answer = cli.client.post("/commands", told)
    if cli.json:
        output.write_bytes(answer.body)
        return
    left = f"; {', '.join(results)}" if results else ""
    took = output.duration(outcome.duration_ms / 1000)
    output.warn(f"{answer.data['id']}: exit status {outcome.exit_code} after {took}{left}")


def _kind(command: Sequence[str]) -> str:
    from sitrepd.agents.words import kind_of

    return kind_of(command[0] if len(command) == 1 else shlex.join(command))


def _end_of(copy: Path) -> str:
    with open(copy, "rb") as file:
        file.seek(max(0, copy.stat().st_size - _READ_BYTES))
        return file.read().decode("utf-8", "replace").replace("\0", "\ufffd").replace("\r\n", "\n")


def _artifacts(cli: Cli, paths: list[str]) -> Iterator[str]:
    for path in paths:
        if not os.path.exists(path):
            output.warn(f"Note: {path} is not there.")
            continue
        yield cli.client.post("/artifacts", {"path": os.path.abspath(path), "role": "left by a command"}).data["id"]


def _benchmarks(
    cli: Cli, command: Sequence[str], printed: str, about: dict[str, Any], before: dict[str, int], outcome: Outcome
) -> Iterator[str]:
    """The runs in the result files that grew, else in the table that was printed."""
    found: list[str] = []
    for path, size in _files_named(command).items():
        if size > before.get(path, 0):
            with open(path, "rb") as file:
                file.seek(before.get(path, 0))
                found += _imported(cli, path, file.read(), about)
    if not found and outcome.exit_code == 0 and "Serving Benchmark Result" in printed:
        found += _imported(cli, "printed output", printed.encode(), about)
    yield from found


def _imported(cli: Cli, name: str, body: bytes, about: dict[str, Any]) -> list[str]:
    try:
        name = cli.path_here(name) if os.path.exists(name) else name
        taken = cli.client.upload("/benchmarks/import", body, name=name, **about).data
    except Refused as error:
        output.warn(f"Note: {error.detail}")
        return []
    for note in taken.get("notes") or ():
        output.warn(f"Note: {note}")
    return [one["id"] for one in taken["data"]]


def _files_named(command: Sequence[str]) -> dict[str, int]:
    """Result files that the command may write, with their sizes now."""
    from sitrepd.agents.words import programs
    from sitrepd.benchmarks.files import result_files

    line = command[0] if len(command) == 1 else shlex.join(command)
    found: dict[str, int] = {}
    for argv in programs(line):
        found |= {str(path): path.stat().st_size for path in result_files(argv, Path.cwd())}
    return found
