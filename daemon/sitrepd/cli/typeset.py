"""Markdown of a checkpoint, set in a terminal: told text as it was told, and a command on one line to copy."""

from __future__ import annotations

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.text import Text

# Only what checkpoints use, as on their pages: the asterisks of a told text are its own.
_PARSER = MarkdownIt("zero", {"html": False}).enable(["heading", "list", "fence", "table", "backticks"])


class _Block(CodeBlock):
    """Not wrapped and not padded, so that what is copied is what was run."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        yield Text(code, style="markdown.code_block", no_wrap=True, overflow="ignore")


class _Checkpoint(Markdown):
    elements: ClassVar = {**Markdown.elements, "fence": _Block, "code_block": _Block}

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = text
        self.parsed = _PARSER.parse(text)


def print_markdown(text: str) -> None:
    Console().print(_Checkpoint(text), crop=False)
