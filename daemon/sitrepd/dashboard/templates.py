"""Jinja for the pages: a user's own folder first, everything escaped."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from sitrepd import __version__
from sitrepd.clock import iso, utc_now
from sitrepd.dashboard import assets, words
from sitrepd.figures import short_text
from sitrepd.paths import resource_dir
from sitrepd.storage import ids

if TYPE_CHECKING:
    from jinja2 import Environment


def render(name: str, templates_dir: Path | None, **context: Any) -> str:
    """The template `<name>.html.j2` with these values."""
    return environment(templates_dir).get_template(f"{name}.html.j2").render(**context)


@cache
def environment(templates_dir: Path | None) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    folders = [resource_dir("templates") / "dashboard"]
    if templates_dir is not None:
        folders.insert(0, templates_dir / "dashboard")
    env = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    env.filters |= {
        "ago": _ago,
        "moment": words.moment_text,
        "duration": words.duration,
        "size": words.size,
        "count": words.count,
        "linked": _linked,
        "shown": _shown,
        "short_text": short_text,
        "varied": _varied,
    }
    env.globals |= {"asset": assets.url, "version": __version__, "edition": assets.edition()}
    return env


def _ago(moment: datetime, now: datetime | None = None) -> Markup:
    """An age that the page counts on; the exact time is its title."""
    text = words.ago(moment, now or utc_now())
    return Markup('<time datetime="{}" title="{}" data-ago>{}</time>').format(
        iso(moment), words.moment_text(moment), text
    )


def _varied(settings: dict[str, Any] | None) -> str:
    """The settings of a trial on one line."""
    return ", ".join(f"{name} {'absent' if value is None else value}" for name, value in (settings or {}).items())


def _shown(value: Any) -> Any:
    if value is None:
        return "–"
    return words.moment_text(value) if isinstance(value, datetime) else value


def _linked(text: str) -> Markup:
    """An id as a link to its fact; any other text as it is."""
    parsed = ids.parse_id(text)
    if parsed is None or text != ids.public_id(*parsed):
        return escape(text)
    return Markup('<a class="id" href="/f/{0}">{0}</a>').format(text)
