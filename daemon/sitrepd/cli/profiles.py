"""`sitrep profile`: time per phase inside a launch or a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "profile",
    "profiles",
    (
        Field("phases", "NAME:calls=400,total_ms=8204.1,mean_ms=20.5; may be repeated.", values.phases, many=True,
              option="phase", metavar="PHASE"),
        Field("launch", "The launch that was profiled.", metavar="L"),
        Field("benchmark", "The benchmark that was profiled.", metavar="B"),
    ),
    (("ID", "id"), ("LAUNCH", "launch"), ("BENCHMARK", "benchmark"),
     ("PHASES", lambda told: [f"{one['name']} {one.get('mean_ms', '?')} ms" for one in told["phases"]]), ("AT", "at")),
)  # fmt: skip

app = noun("Profiles: time per phase inside a launch or a benchmark.")
add_verbs(app, TABLE)


@verb(app, "read")
def read(
    cli: Cli,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A log; `-` is standard input.")],
    pattern: Annotated[
        str | None,
        typer.Option("--pattern", help="Finds (?P<name>…) and (?P<value>…), perhaps (?P<unit>…), in ms otherwise."),
    ] = None,
    launch: Annotated[str | None, typer.Option("--launch", metavar="L", help="The launch it is of.")] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", metavar="B", help="The benchmark it is of.")] = None,
) -> None:
    """Make a profile of the times in a log, such as `[EAGLE3_PROFILE] draft=1.2 ms verify=20.5 ms`.

    Without a pattern, pairs of a name and a time with its unit count, on lines that speak of a profile.
    """
    from sitrepd.cli.portable import read_input
    from sitrepd.cli.timings import phases_of

    body, name = read_input(file)
    phases = phases_of(body.decode(errors="replace"), pattern)
    if not phases:
        raise typer.BadParameter(f"{name} has no times that the pattern finds.")
    told = {"phases": phases, "launch": launch, "benchmark": benchmark, "provenance": f"imported:{name}"}
    answer = cli.client.post("/profiles", {key: value for key, value in told.items() if value is not None})
    cli.show(answer, lambda fact: output.say(f"{fact['id']} stored: {len(fact['phases'])} phases."))


@verb(app, "diff")
def diff(
    cli: Cli,
    first: Annotated[str, typer.Argument(metavar="P", help="The profile to compare with.")],
    second: Annotated[str, typer.Argument(metavar="P", help="The other one.")],
) -> None:
    """Put the phases of two profiles side by side: share of the whole, calls, time of one call, what has changed."""
    told = [cli.client.get(f"/profiles/{one}").data for one in (first, second)]
    rows = differences(*told)
    if cli.json:
        output.as_json({"profiles": [one["id"] for one in told], "phases": rows})
        return
    one, other = (profile["id"] for profile in told)
    output.table(rows, (
        ("PHASE", "name"), (f"{one} SHARE", lambda row: _percent(row["share"][0])),
        (f"{other} SHARE", lambda row: _percent(row["share"][1])), (f"{one} CALLS", lambda row: row["calls"][0]),
        (f"{other} CALLS", lambda row: row["calls"][1]), (f"{one} MS", lambda row: _short(row["mean_ms"][0])),
        (f"{other} MS", lambda row: _short(row["mean_ms"][1])),
        ("DIFFERENCE", lambda row: _percent(row["difference_percent"], "+")),
    ))  # fmt: skip


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By phase, in the order of the first: [first, second] of each figure, and the change of one call in per cent."""
    sides = [{phase["name"]: _figures(phase) for phase in one["phases"]} for one in (first, second)]
    wholes = [sum(phase["total_ms"] or 0.0 for phase in side.values()) for side in sides]
    rows = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        found = [side.get(name, {"calls": None, "total_ms": None, "mean_ms": None}) for side in sides]
        shares = [
            100 * one["total_ms"] / whole if one["total_ms"] is not None and whole else None
            for one, whole in zip(found, wholes, strict=True)
        ]
        before, after = (one["mean_ms"] for one in found)
        change = (after / before - 1) * 100 if before and after is not None else None
        rows.append({
            "name": name, "share": shares, "calls": [one["calls"] for one in found], "mean_ms": [before, after],
            "total_ms": [one["total_ms"] for one in found], "difference_percent": change,
        })  # fmt: skip
    return rows


def _figures(phase: Mapping[str, Any]) -> dict[str, Any]:
    """Of calls, total and mean, any two give the third."""
    calls = phase.get("calls")
    total, mean = (None if phase.get(name) is None else float(phase[name]) for name in ("total_ms", "mean_ms"))
    if total is None and mean is not None and calls is not None:
        total = mean * calls
    if mean is None and total is not None and calls:
        mean = total / calls
    return {"calls": calls, "total_ms": total, "mean_ms": mean}


def _percent(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.1f} %"


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
