"""`sitrep session`: long pieces of work, each with a goal."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Cursor, Limit, NounTable, show_page
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "session",
    "sessions",
    (),
    (
        ("ID", "id"),
        ("STATE", lambda told: "closed" if told.get("ended_at") else "open"),
        ("NAME", "name"),
        ("GOAL", "goal"),
        ("STARTED", "started_at"),
        ("ENDED", "ended_at"),
    ),
    in_session=False,
)

app = noun("Sessions: long pieces of work, each with a goal. A folder is tied to one by `sitrep init`.")
Which = Annotated[str | None, typer.Argument(metavar="S", help="Id or name; else the session that is meant.")]
Goal = Annotated[str | None, typer.Option("--goal", help="What it is to reach.")]
BestMetric = Annotated[
    str | None, typer.Option("--best-metric", help="The metric that names the best run; output_throughput if not told.")
]


@verb(app, "list")
def list_sessions(cli: Cli, limit: Limit = 100, cursor: Cursor = None) -> None:
    """List the sessions, newest first."""
    show_page(cli, TABLE, "/sessions", limit, cursor)


@verb(app, "open")
def open_session(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.")],
    goal: Goal = None,
    best_metric: BestMetric = None,
    started_at: Annotated[str | None, typer.Option("--started-at", help="When it began; now if absent.")] = None,
) -> None:
    """Open a session; `sitrep init NAME` opens one and ties the folder to it."""
    told = {"name": name, "goal": goal, "best_metric": best_metric}
    told["started_at"] = values.moment(started_at) if started_at else None
    answer = cli.client.post("/sessions", {key: value for key, value in told.items() if value is not None})
    cli.show(answer, lambda session: output.say(f"{session['id']} opened: {session['name']}"))


@verb(app, "show")
def show(cli: Cli, session: Which = None) -> None:
    """Everything about one session; the one that is meant, if none is named."""
    cli.show(the_session(cli, session), output.fact)


@verb(app, "close")
def close(cli: Cli, session: Which = None) -> None:
    """Close a session; its facts stay."""
    answer = cli.client.post(f"/sessions/{the_session(cli, session).data['id']}/close")
    cli.show(answer, lambda told: output.say(f"{told['id']} closed: {told['name']}"))


@verb(app, "reopen")
def reopen(cli: Cli, session: Annotated[str, typer.Argument(metavar="S", help="Id or name.")]) -> None:
    """Open a closed session again."""
    answer = cli.client.post(f"/sessions/{the_session(cli, session).data['id']}/reopen")
    cli.show(answer, lambda told: output.say(f"{told['id']} open: {told['name']}"))


@verb(app, "edit")
def edit(
    cli: Cli,
    session: Which = None,
    name: Annotated[str | None, typer.Option("--name", help="What it is called.")] = None,
    goal: Goal = None,
    best_metric: BestMetric = None,
) -> None:
    """Change name, goal or best metric of a session."""
    told = {"name": name, "goal": goal, "best_metric": best_metric}
    changes = {key: value for key, value in told.items() if value is not None}
    if not changes:
        raise typer.BadParameter("say what to change: --name, --goal or --best-metric.")
    answer = cli.client.patch(f"/sessions/{the_session(cli, session).data['id']}", changes)
    cli.show(answer, lambda one: output.say(f"{one['id']} changed: {one['name']}"))


def the_session(cli: Cli, told: str | None = None) -> Any:
    """The answer about the session that is named, else about the one that is meant."""
    if told:
        cli.session = told
    return cli.fresh_client().get("/sessions/current")
