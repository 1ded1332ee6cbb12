"""`sitrep profile`: time per phase inside a launch or a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_add, add_edit, add_list
from sitrepd.cli.verbs import Cli, noun, verb

if TYPE_CHECKING:
    from sitrepd.benchmarks.profiles.found import Found

TABLE = NounTable(
    "profile",
    "profiles",
    (
        Field("phases", "NAME:calls=400,total_ms=8204.1,mean_ms=20.5; may be repeated.", values.phases, many=True,
              option="phase", metavar="PHASE"),
        Field("name", "What it is called."),
        Field("launch", "The launch that was profiled.", metavar="L"),
        Field("benchmark", "The benchmark that was profiled.", metavar="B"),
        Field("tool", "What measured it."),
        Field("note", "More of it."),
        Field("artifact", "Path of what it was read from.", metavar="PATH"),
    ),
    (("ID", "id"), ("NAME", "name"), ("TOOL", "tool"), ("LAUNCH", "launch"), ("BENCHMARK", "benchmark"),
     ("PHASES", lambda told: _brief(told["phases"])), ("AT", "at")),
)  # fmt: skip
_SHOWN = 4
_TIMEOUT_S = 10
_MOST_ANSWER = 64 << 20

app = noun("Profiles: time per phase inside a launch or a benchmark.")
add_list(app, TABLE)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId) -> None:
    """The phases of one profile, with their shares and calls."""
    cli.show(cli.client.get(f"/profiles/{fact_id}"), _say)


add_add(app, TABLE)
add_edit(app, TABLE)


@verb(app, "read")
def read(
    cli: Cli,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A trace of the PyTorch profiler (.json, .json.gz), an export of Nsight Systems (.sqlite, or "
            "the CSV of `nsys stats`), what /server_info answers, a log, or the URL of an SGLang server; `-` is stdin.",
        ),
    ],
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", help="For a log: finds (?P<name>…) and (?P<value>…), perhaps (?P<unit>…), in ms otherwise."
        ),
    ] = None,
    launch: Annotated[str | None, typer.Option("--launch", metavar="L", help="The launch it is of.")] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", metavar="B", help="The benchmark it is of.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What it is called.")] = None,
) -> None:
    """Make a profile of what another tool recorded; of a log, of times such as `[EAGLE3_PROFILE] draft=1.2 ms`.

    Traces are read here, piece by piece; only the phases are sent to the daemon.
    """
    with _input(file) as (path, known_as):
        from sitrepd.benchmarks.profiles.reading import read_profile

        found = read_profile(path, known_as, pattern)
    told = _body(found) | {
        "launch": launch, "benchmark": benchmark, "name": name, "provenance": f"imported:{known_as}",
        "artifact": None if file == "-" or _is_url(file) else cli.path_here(file),
    }  # fmt: skip
    answer = cli.client.post("/profiles", {key: value for key, value in told.items() if value is not None})

    def stored(fact: dict[str, Any]) -> None:
        output.say(f"{fact['id']} stored: {len(fact['phases'])} phases.")
        _say(fact)

    cli.show(answer, stored)


def _body(found: Found) -> dict[str, Any]:
    return {"phases": [phase.told() for phase in found.phases], "tool": found.tool, "note": found.note}


@contextmanager
def _input(file: str) -> Iterator[tuple[Path, str]]:
    """Where the bytes are, and the name that they are known by."""
    import tempfile

    if file != "-" and not _is_url(file):
        yield Path(file), Path(file).name
        return
    with tempfile.NamedTemporaryFile(prefix="sitrep-") as kept:
        if _is_url(file):
            kept.write(_server_info(file))
        else:
            import shutil
            import sys

            shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.flush()
        yield Path(kept.name), _shown(file) if _is_url(file) else "stdin"


def _shown(url: str) -> str:
    """Without a name and password in it."""
    return re.sub(r"//[^/@]*@", "//", url)


def _is_url(file: str) -> bool:
    return file.startswith(("http://", "https://"))


def _server_info(url: str) -> bytes:
    """Of a server at `http://127.0.0.1:30000`; the path may be told too."""
    from http.client import HTTPException
    from urllib.error import URLError
    from urllib.request import urlopen

    whole = url if url.rstrip("/").endswith("server_info") else f"{url.rstrip('/')}/server_info"
    try:
        with urlopen(whole, timeout=_TIMEOUT_S) as answer:
            return bytes(answer.read(_MOST_ANSWER))
    except (URLError, OSError, ValueError, HTTPException) as error:
        raise typer.BadParameter(
            f"{_shown(whole)} does not answer: {getattr(error, 'reason', None) or error}."
        ) from error


@verb(app, "diff")
def diff(
    cli: Cli,
    first: Annotated[str, typer.Argument(metavar="P", help="The profile to compare with.")],
    second: Annotated[str, typer.Argument(metavar="P", help="The other one.")],
) -> None:
    """Put the phases of two profiles side by side: share of the whole, calls, time of one call, what has changed."""
    from sitrepd.benchmarks.profiles.differences import differences

    told = [cli.client.get(f"/profiles/{one}").data for one in (first, second)]
    rows = differences(*told)
    if cli.json:
        output.as_json({"profiles": [one["id"] for one in told], "phases": rows})
        return
    one, other = (profile["id"] for profile in told)
    for group in dict.fromkeys(row["group"] for row in rows):
        if group:
            output.say(f"\n{group}")
        output.table([row for row in rows if row["group"] == group], (
            ("PHASE", "name"), (f"{one} SHARE", lambda row: _percent(row["share"][0])),
            (f"{other} SHARE", lambda row: _percent(row["share"][1])), (f"{one} CALLS", lambda row: row["calls"][0]),
            (f"{other} CALLS", lambda row: row["calls"][1]), (f"{one} MS", lambda row: _short(_time(row, 0))),
            (f"{other} MS", lambda row: _short(_time(row, 1))),
            ("DIFFERENCE", lambda row: _percent(row["difference_percent"], "+")),
        ))  # fmt: skip


def _time(row: Mapping[str, Any], side: int) -> float | None:
    """Of one call; of what has no calls, its total."""
    mean: float | None = row["mean_ms"][side]
    if mean is None and all(one is None for one in row["mean_ms"]):
        total: float | None = row["total_ms"][side]
        return total
    return mean


def _say(told: dict[str, Any]) -> None:
    from sitrepd.benchmarks.profiles.found import mean_ms, shares, total_ms

    of = " ".join(f"{word} {told[word]}" for word in ("launch", "benchmark") if told.get(word))
    output.say(", ".join(part for part in (told["id"], told.get("name"), told.get("tool"), of) if part))
    rows = [
        {**phase, "share": share, "total_ms": total_ms(phase), "mean_ms": mean_ms(phase)}
        for phase, share in zip(told["phases"], shares(told["phases"]), strict=True)
    ]
    for group in dict.fromkeys(row.get("group") for row in rows):
        if group:
            output.say(f"\n{group}")
        output.table([row for row in rows if row.get("group") == group], (
            ("PHASE", "name"), ("SHARE", lambda row: _percent(row["share"])), ("CALLS", "calls"),
            ("TOTAL MS", lambda row: _short(row["total_ms"])), ("MS EACH", lambda row: _short(row["mean_ms"])),
        ))  # fmt: skip
    if told.get("note"):
        output.say(f"\n{told['note']}")


def _brief(phases: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first ones, and how many there are."""
    from sitrepd.benchmarks.profiles.found import mean_ms, total_ms

    shown = [
        f"{one['name'][:40]} {_short(mean_ms(one) if mean_ms(one) is not None else total_ms(one)) or '?'} ms"
        for one in phases[:_SHOWN]
    ]
    return [*shown, *([f"{len(phases) - _SHOWN} more"] if len(phases) > _SHOWN else [])]


def _percent(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.1f} %"


def _short(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
