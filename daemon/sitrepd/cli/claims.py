"""`sitrep claim`: who uses which GPUs and ports, and until when."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Cursor, FactId, Field, Limit, NounTable, add_edit, add_show
from sitrepd.cli.verbs import Cli, noun, verb

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_MOST_S = 366 * 86400


def _ends(told: Mapping[str, Any]) -> str:
    if told.get("ended_at"):
        return f"ended {output.local_time(told['ended_at'])}"
    if told.get("until"):
        return output.local_time(told["until"]) if told.get("active") else "over"
    return f"with pid {told['pid']}" if told.get("pid") else f"with {told['launch']}" if told.get("launch") else ""


def _numbers(told: Mapping[str, Any]) -> str:
    from sitrepd.claims.overlap import ranges

    return ranges(told["numbers"])


TABLE = NounTable(
    "claim",
    "claims",
    (
        Field("resource", "What is claimed.", choices=("gpu", "port"), argument=True),
        Field("numbers", "Their numbers.", metavar="0-3,6", argument=True),
        Field("host", "The host that they belong to.", metavar="H"),
        Field("launch", "The launch that uses them.", metavar="L"),
        Field("owner", "Who uses them."),
        Field("why", "What for."),
        Field("until", "When it ends by itself.", values.moment, metavar="TIME"),
        Field("pid", "A process that it ends with.", values.number, metavar="N"),
    ),
    (("ID", "id"), ("WHAT", "resource"), ("NUMBERS", _numbers), ("OWNER", "owner"), ("SESSION", "session"),
     ("LAUNCH", "launch"), ("UNTIL", _ends), ("WHY", "why")),
)  # fmt: skip
EDITED = NounTable("claim", "claims", tuple(one for one in TABLE.fields if one.name in ("owner", "why", "until")), ())

app = noun("Claims of GPUs and ports: `sitrep claim gpu 0-3 --for 2h`, `claim port 30000`, `list`, `end`.")

Numbers = Annotated[str, typer.Argument(metavar="NUMBERS", help="Such as 0-3 or 0,2,6.")]
For = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="How long: 90s, 30m, 2h, 1d; two hours if not said.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Until when, instead of --for.")]
While = Annotated[int | None, typer.Option("--pid", metavar="N", help="It ends with this process.")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="What for.")]
Owner = Annotated[str | None, typer.Option("--owner", metavar="TEXT", help="Who uses them; the user if not said.")]


def numbers_of(told: str) -> list[int]:
    """[0, 1, 2, 3, 6] of 0-3,6."""
    found: list[int] = []
    for part in told.split(","):
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise typer.BadParameter(f"{told!r}: write numbers as 0-3 or 0,2,6.")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return sorted(set(found))


def duration_of(told: str) -> timedelta:
    """90s, 30m, 2h, 1h30m, 1d."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(min|[smhd])", told.strip().lower())
    if not parts or "".join(number + unit for number, unit in parts) != told.strip().lower():
        raise typer.BadParameter(f"{told!r} is no duration; write 90s, 30m, 2h, 1h30m or 1d.")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if seconds > _MOST_S:
        raise typer.BadParameter(f"{told!r} is more than a year.")
    return timedelta(seconds=seconds)


def _claiming(resource: str) -> Callable[..., None]:
    def claim(
        cli: Cli,
        numbers: Numbers,
        for_: For = None,
        until: Until = None,
        pid: While = None,
        why: Why = None,
        owner: Owner = None,
    ) -> None:
        if for_ and until:
            raise typer.BadParameter("--for or --until, not both.")
        end = (datetime.now(UTC) + duration_of(for_)).isoformat() if for_ else values.moment(until) if until else None
        body: dict[str, Any] = {
            "resource": resource,
            "numbers": numbers_of(numbers),
            "owner": owner or _user(),
            "why": why,
        }
        body |= {"until": end, "pid": pid}
        answer = cli.client.post("/claims", {name: value for name, value in body.items() if value is not None})
        cli.show(answer, _say)

    return claim


def _user() -> str | None:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return None


def _say(told: dict[str, Any]) -> None:
    word = "GPU" if told["resource"] == "gpu" else "Port"
    end = _ends(told)
    output.say(f"{told['id']}: {word} {_numbers(told)} claimed by {told['owner']}{f' until {end}' if end else ''}.")
    for one in told.get("conflicts") or ():
        output.warn(f"Warning: {one}.")


verb(app, "gpu", help="Claim GPUs.")(_claiming("gpu"))
verb(app, "port", help="Claim ports.")(_claiming("port"))


@verb(app, "list")
def list_claims(
    cli: Cli,
    limit: Limit = 100,
    cursor: Cursor = None,
    every: Annotated[bool, typer.Option("--ended", help="Those that are over too.")] = False,
) -> None:
    """List claims of all sessions, newest first."""
    answer = cli.client.get("/claims", limit=limit, cursor=cursor, ended=every or None)

    def for_people(page: Any) -> None:
        output.table(page["data"], TABLE.columns, "Nothing is claimed.")
        if page.get("next_cursor"):
            output.warn(f"More with --cursor {page['next_cursor']}")

    cli.show(answer, for_people)


@verb(app, "end")
def end(cli: Cli, fact_id: FactId) -> None:
    """End a claim now."""
    cli.show(cli.client.post(f"/claims/{fact_id}/end"), lambda told: output.say(f"{told['id']} ended."))


add_show(app, TABLE)
add_edit(app, EDITED)
