"""`sitrep backfill`: a project that began without Sitrep, read from its files."""

from __future__ import annotations

import socket
import zoneinfo
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

if TYPE_CHECKING:
    from sitrepd.backfill.found import Found, Start

app = typer.Typer()
_SAY_BYTES = 48 << 20
_MOST_LINES = 30
_TIMEOUT_S = 120.0
_OUTCOMES = {
    "new": "new", "updated": "brought up to date", "known": "known before", "observed": "watched by the daemon itself",
}  # fmt: skip


@verb(app, "backfill")
def backfill(
    cli: Cli,
    folders: Annotated[list[str], typer.Argument(metavar="DIR…", help="Folders, or single files, to read.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be told; without a daemon.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="The machine that the logs are of; this one if absent.")
    ] = None,
    zone: Annotated[
        str | None,
        typer.Option(
            "--timezone", metavar="ZONE", help="Of the times in the logs, as Europe/Berlin; this machine's if absent."
        ),
    ] = None,
    transcript: Annotated[
        bool,
        typer.Option(
            "--transcript",
            help="Read conversations of Claude Code or opencode there, as their clients have stored them.",
        ),
    ] = False,
) -> None:
    """Read server logs, benchmark results and training logs below folders into the session; twice is as once.

    With --transcript what coding agents' clients have stored instead: Claude Code's `~/.claude/projects/…`, opencode's
    `~/.local/share/opencode`, or what `opencode export` printed.
    """
    from sitrepd.backfill import run, told

    _check(folders, zone)
    if transcript:
        from sitrepd.cli.backfill_transcripts import read_transcripts

        read_transcripts(cli, folders, dry_run, host)
        return
    session = None if dry_run else cli.client.get("/sessions/current").data["id"]
    found = run.find(folders, zone, _say_size)
    starts = told.wanted(found, followed=cli.is_store and host is None)
    settled = {} if dry_run else _tell(cli, found, starts, host)
    report = {"session": session, "dry_run": dry_run} | told.report(found, starts, settled)
    if cli.json:
        output.as_json(report)
    else:
        _say(report)


def _check(folders: list[str], zone: str | None) -> None:
    for folder in folders:
        if not Path(folder).exists():
            raise typer.BadParameter(f"{folder} does not exist.")
    try:
        if zone:
            zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise typer.BadParameter(f"{zone} is no time zone; say it as Europe/Berlin or UTC.") from error


def _say_size(files: int, size: int) -> None:
    if size >= _SAY_BYTES:
        output.warn(f"Reading {files} files ({output.size(size)}).")


def _tell(cli: Cli, found: Found, starts: list[Start], host: str | None) -> dict[str, dict[str, str]]:
    from sitrepd.backfill import told

    return told.tell(poster(cli, host), found, starts)


def poster(cli: Cli, host: str | None) -> Callable[[dict[str, Any]], Sequence[dict[str, str]]]:
    """Tells the daemon a part, as of this machine or of `host`; what became of each fact."""
    from sitrepd.hardware.hosts import machine_key

    where = {"host": host} if host else {"host": socket.gethostname(), "machine": machine_key()}
    cli.client.timeout_s = _TIMEOUT_S
    return lambda part: cli.client.post("/backfill", {**where, **part}).data["facts"]


# --- the report ----------------------------------------------------------------------------------------------------


def _say(report: dict[str, Any]) -> None:
    output.say(f"Read {report['files']} files ({output.size(report['bytes'])}) below {', '.join(report['folders'])}.")
    for noun, kind in (("launch", "launches"), ("benchmark", "benchmarks"), ("training run", "trainings")):
        say_kind(noun, report[kind], report["session"])
    _say_findings(report)
    _say_launches(report)
    for one in report["running"]:
        output.say(f"{one['path']} is still written by process {one['pid']}; running servers are followed (sitrep ps).")
    say_not_understood(report)
    for note in report["notes"]:
        output.say(note)
    if report["dry_run"]:
        output.say("Nothing was stored (--dry-run).")


def say_kind(noun: str, lines: list[dict[str, Any]], session: str | None) -> None:
    if not lines:
        output.say(f"\nNo {noun} was found.")
        return
    outcomes = Counter(line["outcome"] for line in lines if "outcome" in line)
    told = ", ".join(f"{outcomes[one]} {word}" for one, word in _OUTCOMES.items() if outcomes[one])
    plural = "es" if noun == "launch" else "s"
    output.say(f"\n{len(lines)} {noun}{plural if len(lines) > 1 else ''}{f' in {session}: {told}' if told else ''}")
    for line in lines[:_MOST_LINES]:
        output.say(f"  {_line(line)}")
    if len(lines) > _MOST_LINES:
        output.say(f"  and {len(lines) - _MOST_LINES} more; --json names all")


def _line(line: dict[str, Any]) -> str:
    words = [line.get("id", ""), str(line.get("name", ""))]
    if "state" in line:
        ready = f", was ready after {line['ready_after_s']:.0f} s" if "ready_after_s" in line else ""
        words.append(line["state"] + ready)
        words.append(output.local_time(line.get("started_at")))
        words.append(line.get("failure", ""))
    elif "points" in line:
        words.append(f"{line['points']} points")
    elif "at" in line:
        words.append(output.local_time(line["at"]))
    else:
        words.append(f"on {line['launch']}" if "launch" in line else "(on which launch is not certain)")
    return "  ".join(word for word in words if word)


def _say_findings(report: dict[str, Any]) -> None:
    for one in report["findings"]:
        times = f" ({len(one['launches'])} times)" if len(one["launches"]) > 1 else ""
        output.say(f"  {one.get('id', '')} {one['title']}{times}".rstrip())


def _say_launches(report: dict[str, Any]) -> None:
    known = [line for line in report["launches"] if line["command"] != "not recorded"]
    if report["launches"]:
        count = len(report["launches"])
        output.say(f"\nThe command is certain of {len(known)} of {count} launches; of the others it is not recorded.")
    ready = [line for line in report["launches"] if "ready_after_s" in line]
    if ready:
        output.say(f"Time left of later starts is foretold from {len(ready)} of these starts.")


def say_not_understood(report: dict[str, Any]) -> None:
    lines = report["not_understood"]
    if lines:
        output.say(f"\n{len(lines)} files were not understood, or not wholly")
        for one in lines[:_MOST_LINES]:
            output.say(f"  {one['path']}: {one['reason']}")
        if len(lines) > _MOST_LINES:
            output.say(f"  and {len(lines) - _MOST_LINES} more; --json names all")
    if report["passed_over"]:
        told = ", ".join(f"{count} {kind}" for kind, count in report["passed_over"].items())
        output.say(f"Passed over: {told}.")
