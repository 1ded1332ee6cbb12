"""Pages as responses, with the headers that keep them to themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.responses import HTMLResponse

from sitrepd.dashboard.templates import render

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def page(template: str, templates_dir: Path | None, status: int = 200, **context: Any) -> HTMLResponse:
    """A rendered template; nothing of it is stored by the browser."""
    return HTMLResponse(render(template, templates_dir, **context), status, HEADERS)


def message(
    title: str,
    text: str,
    status: int,
    command: str | None = None,
    templates_dir: Path | None = None,
    home: bool = False,
) -> HTMLResponse:
    """A page that says one thing, and the command that helps; `home` links to the dashboard."""
    return page("message", templates_dir, status, title=title, text=text, command=command, home=home)
