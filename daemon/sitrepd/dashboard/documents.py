"""Markdown as HTML that may stand inside a page: told text stays data, and nothing is fetched from elsewhere."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


def to_html(markdown: str, deeper: int = 0) -> Markup:
    """Headings go so many levels deeper, below those of the page; tables scroll by themselves."""
    parser = _parser()
    tokens = parser.parse(markdown)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + deeper, 6)}"
    # Raw HTML is off in the parser, which escapes everything else.
    return Markup(parser.renderer.render(tokens, parser.options, {}))


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only what checkpoints use: no links, images, entities or HTML can come out of told text.
    parser = MarkdownIt("zero", {"html": False}).enable(["heading", "list", "fence", "table", "backticks"])
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    parser.add_render_rule("fence", _code)
    return parser


def _code(_renderer: object, tokens: list, index: int, *_: object) -> str:  # type: ignore[type-arg]
    from markdown_it.common.utils import escapeHtml

    return f'<pre tabindex="0"><code>{escapeHtml(tokens[index].content)}</code></pre>\n'
