"""Which lines of a log mean that the server fails, and what its first cause is."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from sitrepd.launches.engines._tracebacks import TRACEBACK, Block
from sitrepd.launches.engines.base import Failed, LogEvent, Stopping
from sitrepd.redact import redact_text

_HIT = re.compile(r"(?P<who>Scheduler|DetokenizerManager|TokenizerManager|DataParallelController) hit an exception")
_PROGRAM = re.compile(
    r"(?:\S*python[\d.]*: (?:No module named|can't open file|Error while finding)|(?:/\S+/)?(?:ba|da|z|k)?sh: .*"
    r"(?:not found|[Pp]ermission denied|No such file or directory|cannot execute)"
    r"|(?:nohup|env|numactl|taskset|timeout): .*(?:failed to run|No such file|[Pp]ermission denied|[Ii]nvalid))"
)
_ARGUMENT = re.compile(r"(?P<program>\S+(?: \S+)?): error: (?P<text>.+)")
_CRASH = re.compile(
    r"Fatal Python error: |Segmentation fault|terminate called after throwing|Aborted \(core dumped\)|^Killed$"
)
_DIED = re.compile(r"Rank \S+ scheduler (?:is dead|died during initialization)|died during initialization \(exit code")
_ASKED = ("SIGTERM received", "Received SIGTERM", "Received SIGINT")
_FORGET_AFTER = 50


class FailureWatch:
    """Gathers tracebacks; one that no log record announced counts only when the process ends right after it."""

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        state = state or {}
        self._block = Block.from_json(state["block"]) if state.get("block") else None
        self._suspect = Block.from_json(state["suspect"]) if state.get("suspect") else None
        self._failed: bool = state.get("failed", False)
        self._stopping: bool = state.get("stopping", False)
        self._usage: bool = state.get("usage", False)

    def state(self) -> dict[str, Any]:
        return {
            "block": self._block.to_json() if self._block else None,
            "suspect": self._suspect.to_json() if self._suspect else None,
            "failed": self._failed,
            "stopping": self._stopping,
            "usage": self._usage,
        }

    @property
    def busy(self) -> bool:
        return self._block is not None or self._suspect is not None

    @property
    def over(self) -> bool:
        """Whether this start has failed or was asked to stop."""
        return self._failed or self._stopping

    def record_begins(self) -> list[LogEvent]:
        """A stamped line ends a traceback that has its exception; one that has not is being interrupted."""
        if self._suspect:
            self._suspect.passed += 1
            if self._suspect.passed > _FORGET_AFTER:
                self._suspect = None
        return self._close() if self._block and self._block.complete else []

    def take(self, line: str, at: datetime, phase: str) -> list[LogEvent] | None:
        """None when the line has nothing to do with a traceback."""
        if self._block is not None:
            if self._block.add(line):
                return []
            closed = self._close()
            return closed + (self.judge(line, "", at, phase) or [])
        if line.startswith(TRACEBACK):
            self._block = Block("process", "", at.isoformat(), phase, stamped=False)
            self._block.add(line)
            return []
        return None

    def judge(self, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent] | None:
        """None when the message says nothing about failing."""
        who = "hit an exception" in message and _HIT.match(message)
        if who:
            return self._announce(who["who"].removesuffix("Manager").lower(), message, rank, at, phase)
        if message.startswith("Initialization failed. warmup error"):
            return self._announce("warmup", message, rank, at, phase)
        if message.startswith(_ASKED):
            return self._stop(message, at)
        if message.startswith(("Received sigquit", "SIGQUIT received")):
            return self._close() + self._accuse() + self._fail_once("child", message, rank, at, phase)
        if message.startswith("Subprocess ") and "crashed with exit code" in message:
            return self._close() + self._accuse() + self._fail("subprocess", message, "", rank, at, phase)
        if "died during init" in message or ("scheduler is dead" in message):
            return self._fail("scheduler", message, "", rank, at, phase) if _DIED.search(message) else None
        if "atchdog timeout" in message and "soft=True" not in message:
            return self._fail("watchdog", message, "", rank, at, phase)
        return self._program(message, rank, at, phase)

    def _program(self, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent] | None:
        """What comes from the program before it logs, or from the shell and the C library around it."""
        if message.startswith("usage: "):
            self._usage = True
            return []
        if self._usage and ": error: " in message:
            found = _ARGUMENT.match(message)
            return self._fail("arguments", found["text"] if found else message, message, rank, at, phase)
        if _PROGRAM.match(message):
            return self._fail("command", message, "", rank, at, phase)
        return self._fail("crash", message, "", rank, at, phase) if _CRASH.search(message) else None

    def moved_on(self) -> None:
        """The start goes on, so a traceback without a record was not the end of it."""
        self._suspect = None

    def finish(self) -> list[LogEvent]:
        return self._close() + self._accuse()

    def announce(self, where: str, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent]:
        """A record says that a traceback comes, which is a failure."""
        return self._announce(where, message, rank, at, phase)

    def _announce(self, where: str, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent]:
        """Another rank's traceback amid an unfinished one goes into the earlier: its cause is the one that counts."""
        if self._block is not None and self._block.stamped and not self._block.complete:
            return []
        closed = self._close()
        self._block = Block(where, rank, at.isoformat(), phase, stamped=True)
        self._block.add(message[message.find(TRACEBACK) :] if TRACEBACK in message else message)
        self._block.cause = ""
        return closed

    def _stop(self, message: str, at: datetime) -> list[LogEvent]:
        events = self._close()
        if self._stopping:
            return events
        self._stopping = True
        return [*events, Stopping(at=at, text=message.strip()[:500])]

    def _close(self) -> list[LogEvent]:
        block, self._block = self._block, None
        if block is None:
            return []
        if block.stamped:
            return self._fail_block(block)
        self._suspect = block
        return self._accuse() if _DIED.search(block.cause) else []

    def _accuse(self) -> list[LogEvent]:
        block, self._suspect = self._suspect, None
        return self._fail_block(block) if block and not self._failed else []

    def _fail_block(self, block: Block) -> list[LogEvent]:
        at = datetime.fromisoformat(block.at)
        if block.cause.startswith("KeyboardInterrupt"):
            return self._stop(block.cause, at)
        cause = block.cause or f"{block.where} hit an exception (the log ends before it says which)"
        return self._fail(block.where, cause, block.summary(), block.rank, at, block.phase)

    def _fail_once(self, where: str, message: str, rank: str, at: datetime, phase: str) -> list[LogEvent]:
        return [] if self._failed else self._fail(where, message, "", rank, at, phase)

    def _fail(self, where: str, cause: str, summary: str, rank: str, at: datetime, phase: str) -> list[LogEvent]:
        """After SIGTERM nothing fails: what dies then was asked to."""
        if self._stopping:
            return []
        first, self._failed = not self._failed, True
        cause, summary = redact_text(cause.strip()[:2000]), redact_text(summary)
        return [Failed(at=at, rank=rank, where=where, cause=cause, summary=summary, phase=phase, first=first)]
