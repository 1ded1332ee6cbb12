"""Replays that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.demo.replaying import Replay


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Replay]]:
    """Starts a replay with these flags; what still runs at the end is ended."""
    running: list[Replay] = []

    def _start(*flags: str, duration_s: float = 0.8) -> Replay:
        folder = tmp_path / str(len(running))
        folder.mkdir()
        running.append(Replay(folder, *flags, duration_s=duration_s))
        return running[-1]

    yield _start
    for replay in running:
        replay.end()
