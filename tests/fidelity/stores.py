"""A store of its own for each mind, spoken to through the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import simplejson
from fastapi.testclient import TestClient
from tests.daemons import application

API = "/api/v1"


class Mind:
    """One store and the one session in it."""

    def __init__(self, client: TestClient) -> None:
        self.client = client
        self.session = "current"

    def take(self, body: bytes, name: str = "session.jsonl") -> dict[str, Any]:
        """Read a session file, or a checkpoint's JSON."""
        answer = self.client.post(f"{API}/import", params={"name": name}, content=body)
        assert answer.status_code == 201, answer.text
        told: dict[str, Any] = answer.json()
        self.session = told["session"]
        return told

    def checkpoint(self, form: str = "md", budget: int | str | None = None) -> str:
        """Rendered now."""
        made = self.client.post(f"{API}/sessions/{self.session}/checkpoints")
        assert made.status_code in (200, 201), made.text
        params = {"format": form} | ({"budget": str(budget)} if budget is not None else {})
        answer = self.client.get(f"{API}/checkpoints/{made.json()['id']}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.text

    def tell(self, plural: str, **body: Any) -> str:
        """Tell a fact; its id."""
        content = simplejson.dumps(body, use_decimal=True)
        headers = {"content-type": "application/json"}
        answer = self.client.post(f"{API}/sessions/{self.session}/{plural}", content=content, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def change(self, plural: str, fact_id: str, **body: Any) -> None:
        answer = self.client.patch(f"{API}/{plural}/{fact_id}", json=body)
        assert answer.status_code == 200, answer.text

    def find(self, plural: str, **told: Any) -> str:
        """The id of the only fact that says so."""
        found = [one["id"] for one in self.list(plural) if all(one.get(name) == value for name, value in told.items())]
        assert len(found) == 1, (plural, told, found)
        return str(found[0])

    def list(self, plural: str) -> list[Mapping[str, Any]]:
        answer = self.client.get(f"{API}/sessions/{self.session}/{plural}", params={"limit": 1000})
        assert answer.status_code == 200, answer.text
        data: list[Mapping[str, Any]] = answer.json()["data"]
        return data


@contextmanager
def fresh_mind(**settings: Any) -> Iterator[Mind]:
    with TemporaryDirectory(prefix="sitrep-fidelity-") as folder, application(Path(folder), **settings) as client:
        yield Mind(client)


def lines(told: Iterable[Mapping[str, Any]]) -> bytes:
    return "\n".join(simplejson.dumps(line, use_decimal=True, ensure_ascii=False) for line in told).encode()
