"""Stopping a server the way SGLang wants: SIGTERM to its main process alone, then SIGKILL to all that is left.

SIGTERM to the whole group would be logged as a crash of its ranks; ranks may outlive the main process.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sitrepd.launches.launchers.base import Exit, Launched, ProcessIdentity
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.processes import Stat, process_tree

StopState = Literal["asked", "killed", "stopped"]
_AFTER_EXIT_S = 3.0


@dataclass
class StopLadder:
    """One stop, in steps that do not block: `ask()` once, then `step()` every 50 ms or so until it says "stopped".

    Ranks that outlive a main process which has ended get `after_exit_s` more before they are killed.
    """

    launcher: LocalLauncher
    launched: Launched
    grace_s: float = 30.0
    after_exit_s: float = _AFTER_EXIT_S
    killed: set[int] = field(default_factory=set)
    exit: Exit | None = None
    _known: set[ProcessIdentity] = field(default_factory=set)
    _deadline: float | None = None

    def knows(self, identity: ProcessIdentity) -> None:
        """A process that belongs to it, though it is not below what was started."""
        self._known.add(identity)

    def ask(self) -> bool:
        """SIGTERM to the main process; False when it had ended already."""
        self._known |= set(self.launcher.identities(self.launched))
        self._deadline = time.monotonic() + self.grace_s
        return self.launcher.signal(self.launched, signal.SIGTERM)

    def tree(self, stats: Mapping[int, Stat]) -> set[int]:
        """The pids of what is being stopped."""
        launched = self.launched
        return set(process_tree(launched.identity, launched.supervisor, self._known, stats))

    def step(self) -> StopState:
        """Look, and kill when the time is over; "stopped" once no process is left and the exit is known."""
        if self._deadline is None:
            self.ask()
        now, deadline = time.monotonic(), self._deadline or 0.0
        tree = self.launcher.tree(self.launched, self._known)
        if self.exit is None and (ended := self.launcher.poll(self.launched)):
            self.exit = ended
            self._deadline = deadline = min(deadline, now + self.after_exit_s)
        if not tree and self.exit:
            return "stopped"
        if now >= deadline:
            self.killed |= set(self.launcher.kill(self.launched, self._known))
        return "killed" if self.killed else "asked"


def stop(launcher: LocalLauncher, launched: Launched, grace_s: float = 30.0) -> StopLadder:
    """The whole ladder, blocking; the result has `exit` and the pids that had to be killed."""
    ladder = StopLadder(launcher, launched, grace_s)
    while ladder.step() != "stopped":
        time.sleep(0.05)
    return ladder
