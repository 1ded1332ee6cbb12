"""An application with the reference session, and quick ways to tell and ask."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, tell_reference
from tests.daemons import application


@pytest.fixture
def told(tmp_path: Path) -> Iterator[TestClient]:
    """The reference session as S1."""
    with application(tmp_path / "store") as client:
        tell_reference(client)
        yield client


def ask(client: TestClient, path: str, **params: Any) -> Any:
    answer = client.get(f"{API}{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def found(client: TestClient, words: str, **params: Any) -> list[str]:
    """Ids of what a search finds, best first."""
    return [one["id"] for one in ask(client, "/search", q=words, **params)["data"]]


def change(client: TestClient, path: str, **fields: Any) -> None:
    answer = client.patch(f"{API}{path}", json=fields)
    assert answer.status_code == 200, answer.text
