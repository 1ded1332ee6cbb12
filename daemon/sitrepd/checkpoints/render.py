"""A stored checkpoint in its formats: Markdown by template, JSON as it is, HTML and plain text from the Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from sitrepd.checkpoints import budget
from sitrepd.checkpoints.budget import Kept, Part, Piece, fit
from sitrepd.checkpoints.left_out import left_out
from sitrepd.checkpoints.quote import one_line
from sitrepd.checkpoints.shorten import shorter

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

    from sitrepd.checkpoints.templates import Templates

FORMATS: dict[str, str] = {
    "md": "text/markdown",
    "json": "application/json",
    "html": "text/html",
    "txt": "text/plain",
}
TERSE = 4000
"""Up to so many characters, the words between the facts are as few as can be."""
_NAME = 80
_FRACTION = re.compile(r"\.\d+")
_RULE = re.compile(r"\|(?: ?:?-+:? ?\|)+")
_FENCE = re.compile(r"(`{3,})\w*")


def render(rendered: Mapping[str, Any], form: str, most: int | None, templates: Templates) -> str:
    """The section model as text; of a page (html) the budget counts the Markdown that it is made from."""
    if form == "json":
        return to_json(rendered, most)
    text = to_markdown(rendered, most, templates)
    if form == "html":
        return templates.page(title(rendered), to_html(text))
    return to_text(text) if form == "txt" else text


def title(rendered: Mapping[str, Any]) -> str:
    return f"{rendered['id']} · {rendered['session']['id']} {one_line(rendered['session']['name'])}"


def identity(rendered: Mapping[str, Any]) -> str:
    """Who, what and when on one line: `Sitrep C15 · S1 … · 2026-12-01T03:20:47Z · trigger idle (L1 loading)`."""
    name = short(rendered["session"]["name"])
    cause = f" ({one_line(rendered['cause'])})" if rendered.get("cause") else ""
    at = _FRACTION.sub("", rendered["at"])
    told = f"Sitrep {rendered['id']} · {rendered['session']['id']} {name} · {at}"
    return f"{told} · trigger {one_line(rendered['trigger'])}{cause}"


def short(name: str) -> str:
    """A name on one line; a long one ends at a word."""
    told = one_line(name)
    if len(told) <= _NAME:
        return told
    return f"{told[:_NAME].rsplit(' ', 1)[0]} …"


def to_markdown(rendered: Mapping[str, Any], most: int | None, templates: Templates) -> str:
    """Line 1 is the identity line; then the sections; then what is left out."""
    first = f"{identity(rendered)} — name {rendered['id']} in your first answer."
    return fit_markdown(first, templates.typeset_all(rendered, terse=most is not None and most <= TERSE), most)


def fit_markdown(first: str, parts: Sequence[Part], most: int | None) -> str:
    def compose(kept: Kept, room: int | None) -> str:
        blocks = [_block(part, shown) for part, shown in zip(parts, kept, strict=True) if shown]
        missing = left_out(parts, kept, room)
        return "\n\n".join([first, *blocks, *([missing] if missing else [])]) + "\n"

    return fit(parts, most, compose)


def _block(part: Part, shown: Mapping[int, int]) -> str:
    pieces = sorted(((part.pieces[number], level) for number, level in shown.items()), key=lambda one: one[0].place)
    return "\n".join([*([part.head] if part.head else []), *(piece.form(level) for piece, level in pieces)])


# --- JSON --------------------------------------------------------------------------------------------------------


def to_json(rendered: Mapping[str, Any], most: int | None) -> str:
    """The section model; where a budget leaves something out, `left_out` says what and how it is had.

    An item that stands there in a shorter form says `shortened`.
    """
    sections = rendered["sections"]
    parts = [_json_part(section) for section in sections]

    def compose(kept: Kept, room: int | None) -> str:
        told = [
            {
                **section,
                "items": [
                    _form(section["items"][number], part.pieces[number], shown[number]) for number in sorted(shown)
                ],
            }
            for section, part, shown in zip(sections, parts, kept, strict=True)
            if shown or not section["items"]
        ]
        missing = left_out(parts, kept, room)
        document = {**rendered, "sections": told, "left_out": missing.split("\n") if missing else []}
        return json.dumps(document, ensure_ascii=False) + "\n"

    return fit(parts, most, compose)


def _form(item: Any, piece: Piece, level: int) -> Any:
    return item if level == 0 else json.loads(piece.form(level)[:-1])


def _json_part(section: Mapping[str, Any]) -> Part:
    def text(item: Mapping[str, Any]) -> str:
        return json.dumps(item, ensure_ascii=False) + ","

    head = json.dumps({**section, "items": []}, ensure_ascii=False)
    pieces = [
        budget.piece(section, number, text(item), partial(_shorter_json, item, text))
        for number, item in enumerate(section["items"])
    ]
    return budget.part(section, head, pieces)


def _shorter_json(item: Mapping[str, Any], text: Callable[[Mapping[str, Any]], str]) -> list[str]:
    return [text(form) for form in shorter(item)]


# --- plain text and HTML -----------------------------------------------------------------------------------------


def to_text(markdown: str) -> str:
    """The same without the marks of headings, fences and tables; never longer, and told text stays as it is."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        mark = _FENCE.fullmatch(line)
        if fence:
            fence, line_out = ("", None) if line == fence else (fence, line)
        elif mark:
            fence, line_out = mark[1], None
        else:
            line_out = _plain(line)
        if line_out is not None:
            lines.append(line_out)
    return "\n".join(lines)


def _plain(line: str) -> str | None:
    if line.startswith("## "):
        return line[3:].upper() if line[3:].isascii() and "`" not in line else line[3:]
    if _RULE.fullmatch(line):
        return None
    return line[2:-2] if line.startswith("| ") and line.endswith(" |") else line


def to_html(markdown: str) -> str:
    """The Markdown of a checkpoint as HTML; told text can bring no tags, links or images into it."""
    return str(_markdown().render(markdown))


@cache
def _markdown() -> MarkdownIt:
    """Only what the templates use; all else is printed as it is told."""
    from markdown_it import MarkdownIt

    return MarkdownIt("zero", {"html": False}).enable(["heading", "list", "fence", "table", "backticks"])
