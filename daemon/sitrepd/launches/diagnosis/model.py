"""What a diagnosis says, and what it rests on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MOST_EVIDENCE = 8
_WIDTH = 500


@dataclass(frozen=True, slots=True)
class Evidence:
    """One line of the log; `line` counts from 1, and is 0 for what was seen elsewhere (exit status, kernel)."""

    line: int
    text: str

    @classmethod
    def of(cls, line: int, text: str) -> Evidence:
        text = text.strip()
        return cls(line, text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…")


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`category` is None where nothing failed, "unknown" where something did and no category is sure."""

    state: str
    phase: str | None
    category: str | None
    summary: str
    cause: str | None = None
    fix: str | None = None
    evidence: tuple[Evidence, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"evidence": [asdict(one) for one in self.evidence]}
