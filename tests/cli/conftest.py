"""Real command lines against real daemons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.daemons import running_daemon


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sitrep]:
    """The command line with a daemon that the tests share; between them one session is open, S1."""
    folder = tmp_path_factory.mktemp("shared")
    with running_daemon(folder / "store"):
        sitrep = Sitrep(folder / "store", folder)
        sitrep("session", "open", "shared work").ok()
        yield sitrep


@pytest.fixture
def sitrep(tmp_path: Path) -> Iterator[Sitrep]:
    """The command line on a store that nobody serves yet; a daemon that it starts is ended."""
    found = Sitrep(tmp_path / "store", tmp_path)
    yield found
    found.end_daemon()
