"""A client as a person sees it: in a terminal of tmux, with keys pressed and the screen read."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.agents.clients.having import Home
from tests.helpers import wait_until

_LIMIT_S = 60
# Text and the key after it would else arrive as one paste, in which Enter is a new line.
_BETWEEN_S = 0.5


@dataclass(frozen=True)
class Screen:
    at: Home
    socket: str

    def tmux(self, *command: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", *command], env=self.at.environment, cwd=self.at.work,
            capture_output=True, text=True, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        return done.stdout

    def text(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "client")

    def shows(self, *words: str) -> str:
        """Wait until one of these can be read, and say which."""

        def look() -> str | None:
            seen = self.text()
            return next((word for word in words if word in seen), None)

        try:
            return str(wait_until(look, interval_s=0.2))
        except AssertionError as error:
            raise AssertionError(f"{words} never came:\n{self.text()}") from error

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", "-t", "client", key)
            time.sleep(_BETWEEN_S)

    def say(self, text: str, heard: Callable[[], object] | None = None) -> None:
        """Type it; Enter is pressed until it was heard, where that is told, for it counts for nothing meanwhile."""
        self.tmux("send-keys", "-t", "client", "-l", text)
        time.sleep(_BETWEEN_S)
        self.press("Enter")
        if heard is not None:
            wait_until(lambda: heard() or self.press("Enter"), interval_s=3)


@contextmanager
def screen(at: Home, *command: str) -> Iterator[Screen]:
    """The client is ended with its terminal."""
    found = Screen(at, str(at.path / "tmux"))
    found.tmux("new-session", "-d", "-s", "client", "-x", "160", "-y", "48", *command)
    try:
        yield found
    finally:
        found.tmux("kill-server")
