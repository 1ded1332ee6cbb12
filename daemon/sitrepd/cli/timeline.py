"""`sitrep timeline`: what happened in a session, in order."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Cursor, Limit
from sitrepd.cli.search import Kinds
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_LONG = 60


@verb(app, "timeline")
def timeline(
    cli: Cli,
    kind: Kinds = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="From this time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Up to this time.")] = None,
    fact: Annotated[str | None, typer.Option("--fact", metavar="ID", help="Only what concerns this fact.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="The newest first.")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """What happened, in order: launches and their states, benchmarks, findings, directives, changes, checkpoints.

    Messages, phases of starts and trials only with --kind message, phase or trial.
    """
    asked: dict[str, Any] = {"since": values.moment(since) if since else None}
    asked |= {"until": values.moment(until) if until else None, "order": "newest" if newest else None}
    answer = cli.client.get("/sessions/current/timeline", kind=kind, fact=fact, limit=limit, cursor=cursor, **asked)
    cli.show(answer, _say)


def _say(page: dict[str, Any]) -> None:
    columns: tuple[output.Column, ...] = (("AT", "at"), ("ID", _id), ("WHAT", _what), ("", "text"))
    output.table(page["data"], columns, "Nothing has happened yet.")
    if page.get("next_cursor"):
        output.warn(f"{len(page['data'])} so far; go on with --cursor {page['next_cursor']}")


def _id(one: Any) -> str:
    return f"{one['type']} {one['id']}" if one["id"].isdigit() else str(one["id"])


def _what(one: Any) -> str:
    """`finding changed: status open → refuted`."""
    word = one["type"].replace("_", " ")
    told = f"{word} {one['what']}" if not one["id"].isdigit() else str(one["what"])
    fields = ", ".join(change(name, field) for name, field in (one.get("fields") or {}).items())
    return f"{told}: {fields}" if fields else told


def change(name: str, field: dict[str, Any]) -> str:
    """`status open → refuted`; only the name where the values were not recorded."""
    if "old" not in field and "new" not in field:
        return name
    return f"{name} {_value(field.get('old'))} → {_value(field.get('new'))}"


def _value(value: Any) -> str:
    text = "nothing" if value is None else output.cell(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
