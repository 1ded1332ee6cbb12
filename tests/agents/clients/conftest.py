"""One daemon for the tests of one client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.daemons import Daemon, running_daemon


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("clients") / "store") as found:
        yield found
