"""Tracebacks gathered line by line into one cause and one summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

TRACEBACK = "Traceback (most recent call last):"
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_MAX_LINES = 400
_KEPT_LINES = 30
_MAX_CAUSE = 2000
_MAX_WIDTH = 500


@dataclass
class Block:
    """One traceback in the making; `stamped` when a log record announced it, so that it is a failure for sure."""

    where: str
    rank: str
    at: str
    phase: str
    stamped: bool
    lines: list[str] = field(default_factory=list)
    cause: str = ""
    count: int = 0
    blank: bool = False
    passed: int = 0

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Block:
        return cls(**data)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def complete(self) -> bool:
        return bool(self.cause)

    def add(self, line: str) -> bool:
        """False when the line is no part of this traceback any more."""
        text = line.rstrip()
        if not text:
            self.blank = self.complete
            return True
        if self.blank and not text.startswith((*_CHAINED, TRACEBACK)):
            return False
        self.blank = False
        self.count += 1
        if self.count > _MAX_LINES:
            return False
        self._keep(text)
        return True

    def _keep(self, text: str) -> None:
        if text.startswith(TRACEBACK) or text.startswith(_CHAINED):
            self.cause = ""
        elif not text[0].isspace():
            if not self.cause:
                self.cause = text[:_MAX_CAUSE]
            elif self.cause.endswith(":"):
                self.cause = f"{self.cause} {text}"[:_MAX_CAUSE]
        if text.strip(" ^~"):
            self.lines.append(text[:_MAX_WIDTH])
        if len(self.lines) > _KEPT_LINES:
            del self.lines[1 : len(self.lines) - _KEPT_LINES + 1]

    def summary(self) -> str:
        return "\n".join(self.lines)
