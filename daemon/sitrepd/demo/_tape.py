"""Where the replay writes: SGLang's records and tqdm's bars on one descriptor, against one clock."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence

_BLOCKS = " ▏▎▍▌▋▊▉█"
_BAR_CELLS = 10
_MIN_INTERVAL_S = 0.1
_SMOOTHING = 0.3


class Tape:
    """Writes whole records to standard error and sleeps until shares of the whole duration."""

    def __init__(self, duration_s: float, seed: int, fd: int = 2, skip_s: float = 0.0) -> None:
        self.duration_s = duration_s
        self.random = random.Random(seed)
        self._fd = fd
        self._started = time.monotonic() - skip_s
        self._lock = threading.Lock()

    def now_s(self) -> float:
        """Seconds since the start that is played began; what was skipped counts."""
        return time.monotonic() - self._started

    def until(self, share: float) -> None:
        """Sleep until this share (0 to 1) of the duration has passed."""
        time.sleep(max(0.0, share * self.duration_s - self.now_s()))

    def raw(self, text: str) -> None:
        with self._lock:
            data = text.encode()
            while data:
                data = data[os.write(self._fd, data) :]

    def record(self, message: str, rank: int | None = None) -> None:
        """One log record; local time without a zone, as SGLang's formatter prints it."""
        prefix = "" if rank is None else f" TP{rank}"
        self.raw(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}{prefix}] {message}\n")


class Bar:
    """A tqdm bar on a file: redrawn after a carriage return, no newline before it closes."""

    def __init__(self, tape: Tape, total: int, description: str = "", *, shards: bool = False) -> None:
        self._tape = tape
        self._total = total
        self._description = description
        self._shards = shards
        self._started = self._last_at = tape.now_s()
        self._drawn = self._n = 0
        self._pace = _Pace()
        self._last_length = 0
        self._draw(None)

    def describe(self, description: str) -> None:
        """Always redraws, with the count drawn last (tqdm's set_description inside a loop)."""
        self._description = description
        self._draw(self._pace.rate())

    def advance(self, n: int = 1) -> None:
        self._n += n
        now = self._tape.now_s()
        if now - self._last_at < _MIN_INTERVAL_S:
            return
        self._pace.add(self._n - self._drawn, now - self._last_at)
        self._drawn, self._last_at = self._n, now
        self._draw(self._pace.rate())

    def close(self) -> None:
        """The last drawing shows the average rate, not the smoothed one."""
        self._drawn = self._n
        elapsed_s = self._tape.now_s() - self._started
        self._draw(self._n / elapsed_s if elapsed_s and self._n else None)
        self._tape.raw("\n")

    def _draw(self, rate: float | None) -> None:
        elapsed_s = self._tape.now_s() - self._started
        render = shard_bar if self._shards else capture_bar
        text = render(self._description, self._drawn, self._total, elapsed_s, rate)
        self._tape.raw("\r" + text + " " * max(0, self._last_length - len(text)))
        self._last_length = len(text)


class _Pace:
    """Smoothed iterations per second, as tqdm computes it."""

    def __init__(self) -> None:
        self._n = self._seconds = 0.0

    def add(self, n: int, seconds: float) -> None:
        self._n = _SMOOTHING * n + (1 - _SMOOTHING) * self._n
        self._seconds = _SMOOTHING * seconds + (1 - _SMOOTHING) * self._seconds

    def rate(self) -> float | None:
        return self._n / self._seconds if self._seconds and self._n else None


def shard_bar(description: str, n: int, total: int, elapsed_s: float, rate: float | None) -> str:
    """SGLang's own BAR_FORMAT of the shard loaders."""
    return f"{description}: {100 * n / total:3.0f}% Completed | {n}/{total} {_meter(n, total, elapsed_s, rate)}"


def capture_bar(description: str, n: int, total: int, elapsed_s: float, rate: float | None) -> str:
    """tqdm's default format with the ten cells it draws where there is no terminal."""
    cells, eighths = divmod(int(n / total * _BAR_CELLS * 8), 8)
    filled = ("█" * cells + (_BLOCKS[eighths] if cells < _BAR_CELLS else "")).ljust(_BAR_CELLS)
    left = f"{description}: " if description else ""
    return f"{left}{100 * n / total:3.0f}%|{filled}| {n}/{total} {_meter(n, total, elapsed_s, rate)}"


def _meter(n: int, total: int, elapsed_s: float, rate: float | None) -> str:
    if not rate:
        return f"[{_interval(elapsed_s)}<?, ?it/s]"
    pace = f"{rate:5.2f}it/s" if rate >= 1 else f"{1 / rate:5.2f}s/it"
    return f"[{_interval(elapsed_s)}<{_interval((total - n) / rate)}, {pace}]"


def _interval(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


def shuffled(tape: Tape, ranks: Sequence[int]) -> list[int]:
    """The order in which the ranks happen to speak; the same for the same seed."""
    order = list(ranks)
    tape.random.shuffle(order)
    return order
