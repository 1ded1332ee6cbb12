"""What hooks told while the way to another machine was not open: kept here, and told there once it is."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from sitrepd.errors import SitrepError

if TYPE_CHECKING:
    from sitrepd.cli.tunnel import Box

# What nobody can tell anew; the rest of what hooks tell is of its moment only.
_TELLING = (
    "UserPromptSubmit", "PostToolUse", "PostCompact", "BeforeAgent", "AfterTool", "message", "tool", "compacted",
)  # fmt: skip
_MOST = 500
_LONGEST_S = 7 * 86400


def keep(box: Box, client: str, event: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Whether the payload was put by, readable for this user alone."""
    if event not in _TELLING:
        return False
    from sitrepd.cli.tunnel import folder_of

    folder = folder_of(box) / "kept"
    folder.mkdir(mode=0o700, exist_ok=True)
    if len(os.listdir(folder)) >= _MOST:
        return False
    told = {"client": client, "event": event, "headers": dict(headers)}
    path = folder / f"{time.time_ns():020}-{os.getpid()}"
    descriptor = os.open(path.with_suffix(".partial"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(json.dumps(told).encode() + b"\n" + body)
    path.with_suffix(".partial").rename(path)
    return True


def any_kept(box: Box) -> bool:
    with suppress(OSError):
        return any((box.link / "kept").iterdir())
    return False


def send(box: Box) -> None:
    """Tell them in their order; what the daemon does not take is dropped, and what does not reach it stays."""
    from sitrepd.cli.client import Client, Refused, Unreachable
    from sitrepd.cli.connection import parse_url

    target = parse_url(str(box))
    with suppress(Unreachable, OSError), open(box.link / "kept.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in sorted((box.link / "kept").glob("*[0-9]")):
            head, _, body = path.read_bytes().partition(b"\n")
            if path.stat().st_mtime > time.time() - _LONGEST_S:
                with suppress(Refused, ValueError, KeyError):
                    told = json.loads(head)
                    path_of = f"/hooks/{told['client']}/{told['event']}"
                    Client(target, told["headers"]).request("POST", path_of, {"late": 1}, body)
            path.unlink()


def tell_later(box: Box) -> None:
    """Where something is kept, another process sees to it."""
    from sitrepd.cli.tunnel import open_in_background

    if any_kept(box):
        with suppress(SitrepError, OSError):
            open_in_background(box)
