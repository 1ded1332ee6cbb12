"""What is known beside the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sitrepd.launches.launchers.base import Exit


@dataclass(frozen=True)
class Beside:
    """How the server ended, and what the machine, the kernel and earlier launches tell."""

    exit: Exit | None = None
    gpu_memory: Mapping[int, int] = field(default_factory=dict)
    kernel_messages: Sequence[str] = ()
    model_folder: Path | str | None = None
    usual_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether somebody saw the server end."""
        return self.exit is not None and self.exit.known

    @property
    def code(self) -> int:
        """The exit code, negative for a signal; 0 also where nobody saw it end."""
        if self.exit is None or not self.exit.known:
            return 0
        return -self.exit.signal if self.exit.signal else self.exit.exit_code or 0
