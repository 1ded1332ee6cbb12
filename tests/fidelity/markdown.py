"""Reads the Markdown of a checkpoint as somebody would who has never seen the program: nothing of it is used here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"(`{3,})([\w+-]*)")
_HELD = re.compile("\x00(\\d+)\x00")


@dataclass
class Item:
    """A statement: its lines in one, in which a block stands as a mark; `told` puts the blocks back."""

    section: str
    line: str
    blocks: list[tuple[str, str]] = field(default_factory=list)

    def told(self, text: str | None = None) -> str:
        return _HELD.sub(lambda mark: self.blocks[int(mark[1])][1], self.line if text is None else text)

    @property
    def commands(self) -> list[str]:
        return [text for language, text in self.blocks if language == "sh"]


@dataclass
class Page:
    """The first line, and the statements by the titles of their sections."""

    first: str
    items: list[Item] = field(default_factory=list)
    titles: list[str] = field(default_factory=list)

    def of(self, title: str) -> Iterator[Item]:
        return (item for item in self.items if item.section == title)


def read(text: str) -> Page:
    lines = iter(text.split("\n"))
    page = Page(next(lines))
    section, item = "", None
    for line in lines:
        fence = _FENCE.fullmatch(line)
        if fence is not None:
            block = _block(lines, fence[1])
            if item is None:
                raise ValueError(f"a block that belongs to nothing: {block!r}")
            item.line += f" \x00{len(item.blocks)}\x00"
            item.blocks.append((fence[2], block))
        elif line.startswith("## "):
            section, item = line[3:], None
            page.titles.append(section)
        elif line.startswith(("- ", "| ")):
            item = Item(section, line[2:] if line[0] == "-" else line)
            page.items.append(item)
        elif not line.strip() or line.startswith("|--"):
            continue
        elif item is None:
            item = Item(section, line)
            page.items.append(item)
        else:
            item.line += line
    return page


def _block(lines: Iterator[str], ticks: str) -> str:
    """The lines up to the fence that ends it."""
    held: list[str] = []
    for line in lines:
        if line == ticks:
            return "\n".join(held)
        held.append(line)
    raise ValueError("a block that does not end")
