from __future__ import annotations

from pathlib import Path


def read(path: Path) -> str | None:
    """The text of a small file of /proc, /sys or /etc; None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """A whole number that is not negative; -1 is how the kernel says that it does not know."""
    text = read(path)
    return int(text) if text is not None and text.isdigit() else None
