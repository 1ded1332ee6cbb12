"""Static files: style, script, icon, and what is vendored; their addresses change with their content."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

FOLDER = Path(__file__).resolve().parent / "static"
_YEAR_S = 365 * 86400


@cache
def edition() -> str:
    """A short hash of all static files: another one means that an open page is out of date."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def url(name: str) -> str:
    """The address of a static file, which may be kept for ever."""
    return f"/static/{name}?v={edition()}"


class Assets(StaticFiles):
    """Files that a browser keeps: a year where the address names this edition, otherwise until it asks again."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        scope = args[2] if len(args) > 2 else kwargs["scope"]
        named = scope["query_string"] == f"v={edition()}".encode()
        response.headers["Cache-Control"] = f"public, max-age={_YEAR_S}, immutable" if named else "no-cache"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response
