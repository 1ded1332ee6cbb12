"""`sitrep search`: finds facts by the words of all that was told."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.nouns import Cursor
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_MARKED = re.compile(r"\*\*(.+?)\*\*")
Kinds = Annotated[
    list[str] | None, typer.Option("--kind", metavar="KIND", help="Only facts of this kind; may be repeated.")
]


@verb(app, "search")
def search(
    cli: Cli,
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help='Words, "a phrase in quotes", or begin*.')],
    kind: Kinds = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=200, help="How many at the most.")] = 20,
    cursor: Cursor = None,
) -> None:
    """Find facts that hold all these words, best first, in all sessions or in that of --session.

    Where no fact holds all words, those that hold some of them are given. In a shell, a phrase needs quotes within
    quotes: '"hidden states"'. Words of one argument with spaces are a phrase too.
    """
    asked = " ".join(_term(word) for word in words)
    answer = cli.client.get("/search", q=asked, kind=kind, limit=limit, cursor=cursor)
    cli.show(answer, _say)


def _term(word: str) -> str:
    """A word as it is; several in one argument are a phrase, unless quotes say what belongs together."""
    if " " not in word.strip() or '"' in word:
        return word
    return f'"{word}"'


def _say(page: dict[str, Any]) -> None:
    found = page["data"]
    if not found:
        output.say("Nothing that was told holds these words.")
        return
    if page["matched"] == "any":
        output.warn("No fact holds all of these words; these hold some:")
    for one in found:
        output.say(_head(one))
        output.say(f"    {_shown(' '.join(one['snippet'].split()))}")
    if page.get("next_cursor"):
        count = f"at least {page['count']}" if page.get("at_least") else page["count"]
        output.warn(f"{len(found)} of {count}; go on with --cursor {page['next_cursor']}")


def _head(one: dict[str, Any]) -> str:
    word = one["type"].replace("_", " ")
    name = one.get("name", "").removeprefix(one["id"]).strip()
    called = f"{word} {one['id']}" if one["id"].isdigit() else f"{one['id']} {word}"
    parts = (called, f"({one['state']})" if one.get("state") else "", _shown(name), one.get("session", ""))
    return "  ".join(part for part in (" ".join(parts[:2]).strip(), *parts[2:]) if part)


def _shown(text: str) -> str:
    """Words that were found in bold in a terminal, between `**` in a pipe."""
    plain = output.printable(text)
    return _MARKED.sub(lambda found: typer.style(found[1], bold=True), plain) if output.in_terminal() else plain
