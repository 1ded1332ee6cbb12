"""The verbs that every noun has (list, show, add, edit), made from a table of its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from sitrepd.cli import output, values
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

Limit = Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many at the most.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="`next_cursor` of the page before.")]
AllSessions = Annotated[bool, typer.Option("--all", help="Of all sessions.")]
FactId = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `list` shows it.")]
FromJson = Annotated[
    str | None,
    typer.Option("--from-json", metavar="FILE", help="Take the fields from a JSON object (`-`: standard input)."),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="FIELD", help="Empty a field; may be repeated.")]


@dataclass(frozen=True)
class Field:
    """A field of a noun and how it is typed: `read` turns the word (the words, if `many`) into the API's value."""

    name: str
    help: str
    read: Callable[[Any], Any] | None = None
    many: bool = False
    flag: bool = False
    choices: tuple[str, ...] = ()
    argument: bool = False
    option: str | None = None
    metavar: str | None = None

    @property
    def key(self) -> str:
        """The name of its parameter."""
        return f"told_{self.name}"

    def value(self, told: Any) -> Any:
        return self.read(told) if self.read is not None else told


@dataclass(frozen=True)
class NounTable:
    """A noun of the API: the path of its list, its fields, and the columns of its table."""

    word: str
    path: str
    fields: tuple[Field, ...]
    columns: tuple[Column, ...]
    in_session: bool = True
    add: bool = True
    besides: Callable[[Cli, Mapping[str, Any]], None] | None = None
    """Says of one fact what is known besides its fields."""


COMMON_FIELDS = (
    Field("at", "When it happened or was told; now if absent.", values.moment, metavar="TIME"),
    Field("provenance", "Where it comes from.", metavar="TEXT"),
    Field("observed_at", "When it was seen to hold.", values.moment, metavar="TIME"),
)


def add_verbs(app: typer.Typer, table: NounTable) -> None:
    """Give `app` the verbs list, show, add and edit of a noun."""
    add_list(app, table)
    add_show(app, table)
    if table.add:
        add_add(app, table)
        add_edit(app, table)


def add_list(app: typer.Typer, table: NounTable) -> None:
    def list_in_session(cli: Cli, limit: Limit = 100, cursor: Cursor = None, all_sessions: AllSessions = False) -> None:
        show_page(cli, table, list_path(cli, table.path, all_sessions), limit, cursor)

    def list_all(cli: Cli, limit: Limit = 100, cursor: Cursor = None) -> None:
        show_page(cli, table, f"/{table.path}", limit, cursor)

    verb(app, "list", help=f"List {_words(table)}, newest first.")(list_in_session if table.in_session else list_all)


def list_path(cli: Cli, path: str, all_sessions: bool) -> str:
    """The list of the session that is meant, or of all."""
    if all_sessions:
        cli.client.forget_session()
        return f"/{path}"
    return f"/sessions/current/{path}"


def show_page(cli: Cli, table: NounTable, path: str, limit: int, cursor: str | None, **asked: Any) -> None:
    answer = cli.client.get(path, limit=limit, cursor=cursor, **asked)

    def for_people(page: Any) -> None:
        output.table(page["data"], table.columns, f"No {_words(table)} yet.")
        if page.get("next_cursor"):
            output.warn(f"{len(page['data'])} of {page['count']}; go on with --cursor {page['next_cursor']}")

    cli.show(answer, for_people)


def add_show(app: typer.Typer, table: NounTable) -> None:
    def show(cli: Cli, fact_id: FactId) -> None:
        def say(told: Mapping[str, Any]) -> None:
            output.fact(told)
            if table.besides is not None:
                table.besides(cli, told)

        cli.show(cli.client.get(f"/{table.path}/{fact_id}"), say)

    verb(app, "show", help=f"Everything that is known of one {_word(table)}.")(show)


def add_add(app: typer.Typer, table: NounTable, name: str = "add", about: str | None = None, **fixed: Any) -> None:
    """The verb that tells a new fact; `fixed` goes with every one."""

    def add(cli: Cli, from_json: str | None, **told: Any) -> None:
        body = values.json_object(from_json) if from_json else {}
        body |= told_fields(table, told) | fixed
        cli.show(cli.client.post(f"/{table.path}", body), lambda fact: output.say(f"{_name(fact, table)} stored."))

    fields = (*table.fields, *COMMON_FIELDS)
    add.__signature__ = _signature([parameter(field, arguments=True) for field in fields])  # type: ignore[attr-defined]
    verb(app, name, help=about or f"Tell {_article(table)}.")(add)


def add_edit(app: typer.Typer, table: NounTable) -> None:
    def edit(cli: Cli, fact_id: str, from_json: str | None, unset: list[str] | None, **told: Any) -> None:
        body = values.json_object(from_json) if from_json else {}
        body |= told_fields(table, told) | {name.replace("-", "_"): None for name in unset or ()}
        if not body:
            raise typer.BadParameter("say what to change: at least one option.")
        answer = cli.client.patch(f"/{table.path}/{fact_id}", body)
        cli.show(answer, lambda fact: output.say(f"{_name(fact, table)} changed."))

    fixed = [_parameter("fact_id", FactId, inspect.Parameter.empty), _parameter("unset", Unset, None)]
    edit.__signature__ = _signature([*fixed, *(parameter(field) for field in table.fields)])  # type: ignore[attr-defined]
    verb(app, "edit", help=f"Change the fields that are given of one {_word(table)}.")(edit)


def told_fields(table: NounTable, told: dict[str, Any]) -> dict[str, Any]:
    """The API's fields for the options that were given."""
    found = {}
    for field in (*table.fields, *COMMON_FIELDS):
        value = told.get(field.key)
        if value is not None:
            try:
                found[field.name] = field.value(value)
            except typer.BadParameter as error:
                raise typer.BadParameter(f"{_option(field)}: {error.message}") from None
    return found


def parameter(field: Field, arguments: bool = False) -> inspect.Parameter:
    """The parameter of a command for a field: an argument where it is one and `arguments`, else an option."""
    kind: Any = list[str] if field.many else bool if field.flag else str
    if field.choices:
        kind = Literal[field.choices]
    optional = kind | None
    if arguments and field.argument:
        # Optional for the command line, since --from-json may have it; the daemon says where it is missing.
        choices = f" One of {', '.join(field.choices)}." if field.choices else ""
        name = (field.metavar or field.name).upper()
        about = typer.Argument(metavar=name, help=f"{field.help}{choices}", show_default=False)
        return _parameter(field.key, Annotated[optional, about], None)
    name = _option(field)
    declared = f"{name}/--no-{name[2:]}" if field.flag else name
    metavar = None if field.flag or field.choices else field.metavar or "TEXT"
    shown = typer.Option(declared, metavar=metavar, help=field.help, show_default=False)
    return _parameter(field.key, Annotated[optional, shown], None)


def _option(field: Field) -> str:
    return f"--{(field.option or field.name).replace('_', '-')}"


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _signature(own: Sequence[inspect.Parameter]) -> inspect.Signature:
    first = _parameter("cli", Cli, inspect.Parameter.empty)
    return inspect.Signature([first, *own, _parameter("from_json", FromJson, None)])


def _name(fact: dict[str, Any], table: NounTable) -> str:
    """F9, or "message 4" where the id is a bare number."""
    return f"{_word(table)} {fact['id']}" if fact["id"].isdigit() else str(fact["id"])


def _word(table: NounTable) -> str:
    return table.word.replace("_", " ")


def _words(table: NounTable) -> str:
    return table.path.replace("-", " ")


def _article(table: NounTable) -> str:
    word = _word(table)
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"
