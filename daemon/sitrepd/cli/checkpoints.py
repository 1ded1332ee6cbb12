"""`sitrep checkpoint`: the status report, rendered now, listed, or shown as it was stored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from sitrepd.cli import output
from sitrepd.cli.client import Answer
from sitrepd.cli.nouns import AllSessions, Cursor, FactId, Limit, NounTable, list_path, show_page
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "checkpoint",
    "checkpoints",
    (),
    (("ID", "id"), ("SESSION", "session"), ("NUMBER", "number"), ("TRIGGER", "trigger"), ("CHARACTERS", "characters"),
     ("NAME", "name"), ("PINNED", lambda one: "yes" if one.get("pinned") else ""), ("AT", "at")),
)  # fmt: skip
Format = Literal["md", "json", "html", "txt"]
FormatOption = Annotated[Format, typer.Option("--format", help="How it is written; --json is the same as json.")]
Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="N", help="Characters at the most; 2000t means tokens; brief, standard or full."),
]
app = noun(
    "Checkpoints: `sitrep checkpoint` renders one now; `sitrep checkpoint list`, `sitrep checkpoint show C15`.",
    bare="new",
    other="new",
)


@verb(app, "new")
def new(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Render a checkpoint and print it; the latest one again where no fact has changed since."""
    made = cli.client.post("/sessions/current/checkpoints").data
    written = "json" if cli.json else format
    print_document(cli.client.get(f"/checkpoints/{made['id']}", format=written, budget=budget), written)


@verb(app, "list")
def list_checkpoints(cli: Cli, limit: Limit = 100, cursor: Cursor = None, all_sessions: AllSessions = False) -> None:
    """List checkpoints, newest first."""
    show_page(cli, TABLE, list_path(cli, TABLE.path, all_sessions), limit, cursor)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId, format: FormatOption = "md", budget: Budget = None) -> None:
    """Print a checkpoint as it was stored; with --json all that is known of it."""
    if cli.json:
        output.write_bytes(cli.client.get(f"/checkpoints/{fact_id}").body)
        return
    print_document(cli.client.get(f"/checkpoints/{fact_id}", format=format, budget=budget), format)


@verb(app, "latest")
def latest(cli: Cli, format: FormatOption = "md", budget: Budget = None) -> None:
    """Print the latest checkpoint; the first one is made where there is none."""
    written = "json" if cli.json else format
    print_document(cli.client.get("/sessions/current/checkpoints/latest", format=written, budget=budget), written)


@verb(app, "diff")
def diff(
    cli: Cli,
    a: Annotated[str, typer.Argument(metavar="C", help="A checkpoint, by id or name.")],
    b: Annotated[str, typer.Argument(metavar="C", help="The checkpoint to compare it with.")],
) -> None:
    """What differs between two checkpoints by facts: added, changed with old and new values, gone."""
    cli.show(cli.client.get(f"/checkpoints/{a}/diff/{b}"), _say_difference)


def _say_difference(told: dict[str, Any]) -> None:
    older, newer = told["older"], told["newer"]
    if not (told["added"] or told["changed"] or told["gone"] or told["messages"]):
        output.say(f"No fact differs between {older} and {newer}.")
    over = {one["id"]: one for one in told["gone"]}
    _say_facts(f"Added since {older}", told["added"])
    _say_facts("Changed", [one for one in told["changed"] if one["id"] not in over])
    changed = {one["id"]: one.get("fields", ()) for one in told["changed"]}
    _say_facts(f"Holds no more in {newer}", [one | {"fields": changed.get(one["id"], ())} for one in told["gone"]])
    if told["messages"]:
        output.say(f"{told['messages']} new message{'s' if told['messages'] != 1 else ''}.")
    if told["basis"] == "sections":
        output.warn("Note: only what the two texts hold was compared; what they leave out is not known here.")


def _say_facts(title: str, found: list[dict[str, Any]]) -> None:
    from sitrepd.cli.timeline import change

    if not found:
        return
    output.say(f"{title}:")
    for one in found:
        state = one.get("why") or one.get("state")
        word = one["type"].replace("_", " ")
        output.say(f"  {one['id']}  {word}{f' ({state})' if state else ''}  {one.get('text') or ''}".rstrip())
        for field in one.get("fields", ()):
            output.say(f"      {change(field['name'], field if field['recorded'] else {})}")


@verb(app, "pin")
def pin(
    cli: Cli,
    fact_id: FactId,
    name: Annotated[str | None, typer.Option("--name", help="Give it a name as well.")] = None,
) -> None:
    """Keep a checkpoint whatever happens."""
    told = {"pinned": True} | ({"name": name} if name is not None else {})
    cli.show(cli.client.patch(f"/checkpoints/{fact_id}", told), lambda one: output.say(f"{one['id']} is pinned."))


@verb(app, "unpin")
def unpin(cli: Cli, fact_id: FactId) -> None:
    """Let a checkpoint be dropped when it is old."""
    answer = cli.client.patch(f"/checkpoints/{fact_id}", {"pinned": False})
    cli.show(answer, lambda one: output.say(f"{one['id']} is not pinned."))


@verb(app, "name")
def name_(
    cli: Cli, fact_id: FactId, name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")]
) -> None:
    """Give a checkpoint a name, by which it can be asked for."""
    answer = cli.client.patch(f"/checkpoints/{fact_id}", {"name": name})
    cli.show(answer, lambda one: output.say(f"{one['id']} is called {one['name']!r}."))


@verb(app, "unname")
def unname(cli: Cli, fact_id: FactId) -> None:
    """Take the name of a checkpoint away."""
    answer = cli.client.patch(f"/checkpoints/{fact_id}", {"name": None})
    cli.show(answer, lambda one: output.say(f"{one['id']} has no name."))


def print_document(answer: Answer, written: Any = "md") -> None:
    """A document: Markdown is set in a terminal, everything is as it came in a pipe."""
    if written != "md" or not output.in_terminal():
        output.write_bytes(answer.body)
        return
    from sitrepd.cli.typeset import print_markdown

    print_markdown(output.printable(answer.text))
