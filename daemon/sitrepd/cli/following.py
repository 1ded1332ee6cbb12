"""What goes on in the daemon, looked at again and again until it is over, and shown as it changes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sitrepd.cli.client import Unreachable, dump

if TYPE_CHECKING:
    from rich.progress import Progress

Moment = dict[str, Any]


def moments(
    look: Callable[[], Moment], is_over: Callable[[Moment], bool], every_s: float, patience_s: float
) -> Iterator[Moment]:
    """Each look, the last one too; a daemon that restarts meanwhile is waited for."""
    answered = time.monotonic()
    while True:
        try:
            found = look()
        except Unreachable:
            if time.monotonic() - answered > patience_s:
                raise
            time.sleep(every_s)
            continue
        answered = time.monotonic()
        yield found
        sys.stdout.flush()  # whoever reads a pipe sees it now
        if is_over(found):
            return
        time.sleep(every_s)


def as_lines(found: Iterator[Moment], key: Callable[[Moment], Any]) -> Moment:
    """One object a line whenever its key is another; the last moment."""
    last: Moment = {}
    shown = None
    for last in found:
        if (now := key(last)) != shown:
            print(dump(last).decode(), flush=True)
            shown = now
    return last


def bar() -> Progress:
    """A bar with what it is of before it, and the field `left` behind it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}"), TimeElapsedColumn())
    return Progress(*columns, console=Console(highlight=False), transient=True)
