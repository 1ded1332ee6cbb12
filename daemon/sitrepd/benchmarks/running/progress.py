"""How many requests a benchmark has had answered, by the bar that it prints."""

from __future__ import annotations

import re
from pathlib import Path

_TAIL_BYTES = 8192
_BAR = re.compile(r"(\d+)/(\d+) \[|\bProfiling: (\d+)/(\d+) \|")
"""Of tqdm, and of aiperf."""
_ANNOUNCED = re.compile(r"Running (\d+) requests on")
_COUNTED = re.compile(r"\bsuccessful=(\d+) errored=(\d+)")
"""As guidellm logs them, which says of none of them how many there will be."""


class Progress:
    """Of the present run: `now` is (requests done, of how many); what a look does not show, an earlier one has."""

    def __init__(self) -> None:
        self.now: tuple[int | None, int | None] = (None, None)

    def begin(self, total: int | None = None) -> None:
        """Another run, of so many requests where that is known before."""
        self.now = (None, total)

    def look(self, printed: Path) -> None:
        """Take in what has been printed by now; blocks a little."""
        done, total = read_progress(printed)
        self.now = (done if done is not None else self.now[0], total or self.now[1])


def read_progress(path: Path) -> tuple[int | None, int | None]:
    """(requests done, of how many), from the end of what was printed; None where it does not say."""
    try:
        with open(path, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None, None
    return parse_progress(text)


def parse_progress(text: str) -> tuple[int | None, int | None]:
    """The last bar counts; where there is none, what was announced is known and none is done."""
    bars = _BAR.findall(text)
    if bars:
        done, total = [one for one in bars[-1] if one]
        return int(done), int(total)
    counted = _COUNTED.findall(text)
    if counted:
        return sum(int(one) for one in counted[-1]), None
    announced = _ANNOUNCED.findall(text)
    return (None, int(announced[-1])) if announced else (None, None)
