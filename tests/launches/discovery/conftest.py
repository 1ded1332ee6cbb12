"""Servers to be found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launches.discovery.servers import Servers


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Real processes, killed at the end."""
    found = Servers(tmp_path)
    yield found
    found.end()
