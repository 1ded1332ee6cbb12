"""What `serve` does; called with nothing but its plain options, it does without Typer.

Typer and the commands would take their time at each start, and stay in memory for as long as the daemon lives.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence

from sitrepd.errors import SitrepError, StoreUnusable

_WITH_VALUE = ("--data-dir", "--port", "--host")
_ANY_PORT = "--any-port"


def serve(data_dir: str | None = None, port: int | None = None, host: str | None = None, any_port: bool = False) -> int:
    """Serve until a signal ends it; the exit status."""
    gc.disable()  # until it listens: what is loaded stays, and is not worth looking over again and again
    from sitrepd.settings import load_settings

    settings = load_settings(data_dir=data_dir, port=port, host=host)
    from sitrepd.server import serve as run

    try:
        return run(settings, any_port=any_port and "port" not in settings.model_fields_set)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise StoreUnusable(f"The daemon cannot start: {where}{error.strerror or error}.") from error


def plainly(words: Sequence[str]) -> int | None:
    """The exit status of `serve` with these options; None where the full command line has to look at them."""
    told = parsed(words)
    if told is None:
        return None
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        port = told.get("--port")
        return serve(told.get("--data-dir"), int(port) if port else None, told.get("--host"), _ANY_PORT in told)
    except SitrepError as error:
        from sitrepd.cli.verbs import REFUSED, Cli, complain

        complain(Cli(), error, {"detail": error.detail, **error.extra})
        return REFUSED


def parsed(words: Sequence[str]) -> dict[str, str] | None:
    """The options of `serve` by name, where they are plain: each once, with a value, and a port in digits."""
    told: dict[str, str] = {}
    rest = list(words)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in _WITH_VALUE:
            value = value if equals else rest.pop(0) if rest else ""
        if name in told or name not in (*_WITH_VALUE, _ANY_PORT) or (name == _ANY_PORT) == bool(value or equals):
            return None
        if value.startswith("-") or (name == "--port" and not (value.isascii() and value.isdecimal())):
            return None
        told[name] = value
    return told
