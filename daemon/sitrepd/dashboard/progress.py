"""How far a living launch is, in the words of the page and of its stream alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sitrepd.dashboard import words


@dataclass(frozen=True)
class Progress:
    """`share` is 0 to 1, None where the present phase has no bar."""

    state: str
    phase: str
    share: float | None
    percent: str
    count: str
    left: str
    elapsed: str
    phase_elapsed: str

    def values(self, public_id: str) -> dict[str, str | float | None]:
        """By the names that the page's elements carry in `data-live`."""
        return {
            f"{public_id}.phase": self.phase or self.state,
            f"{public_id}.bar": self.share,
            f"{public_id}.percent": self.percent,
            f"{public_id}.count": self.count,
            f"{public_id}.left": self.left,
            f"{public_id}.elapsed": self.elapsed,
            f"{public_id}.phase-elapsed": self.phase_elapsed,
        }


def progress(alive: Any) -> Progress:
    """From what the launches slice knows of a living launch."""
    share = alive.progress
    if share is None and alive.total:
        share = (alive.done or 0) / alive.total
    return Progress(
        state=alive.state,
        phase=alive.title or alive.phase or "",
        share=None if share is None else min(max(float(share), 0.0), 1.0),
        percent="" if share is None else f"{int(share * 100)} %",
        count=f"{alive.done} of {alive.total} {alive.unit or ''}".strip() if alive.total else "",
        left=words.left(alive.remaining_low_s, alive.remaining_s, alive.remaining_high_s, alive.remaining_of),
        elapsed=words.duration(alive.elapsed_s),
        phase_elapsed="" if alive.phase_elapsed_s is None else words.duration(alive.phase_elapsed_s),
    )


def title(name: str, shown: Progress) -> str:
    """What the tab says, so that a glance at it is enough."""
    what = f"{shown.percent} {shown.phase or shown.state}".strip()
    return f"{what}: {name}"
