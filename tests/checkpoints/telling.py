"""Sessions to write checkpoints of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.daemons import seed

from sitrepd import portable
from sitrepd.checkpoints import service
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.templates import Templates
from sitrepd.clock import utc_now
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

REFERENCE = Path(__file__).parent.parent / "data" / "reference-session.jsonl"
API = "/api/v1"
LATEST = f"{API}/sessions/current/checkpoints/latest"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def lines() -> list[dict[str, Any]]:
    """The reference session, line by line."""
    return [json.loads(line) for line in REFERENCE.read_text().splitlines()]


def written(
    data_dir: Path,
    told: Iterable[Mapping[str, Any]],
    change: Callable[[Session], object] | None = None,
    live: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The stored model of the first checkpoint of these lines, in a store where nothing observes."""
    seed(data_dir)
    store, registry = Store(load_settings(data_dir=data_dir)), load_registry()
    try:
        text = "\n".join(json.dumps(line) for line in told)
        file = portable.parse(text.encode(), registry, REFERENCE.name)
        store.write(lambda db: portable.store(db, registry, file, REFERENCE.name, "told:test"))
        if change is not None:
            store.write(change)
        with store.read() as db:
            collected = collect(db, registry, 1, utc_now(), live)
    finally:
        store.close()
    return service.model(1, "2026-12-01T03:20:47Z", collected, "idle", "L1 loading")


def section_text(rendered: Mapping[str, Any], name: str) -> list[str]:
    """The lines of one section, without its head."""
    found = [one for one in rendered["sections"] if one["name"] == name]
    assert found, f"there is no section {name}"
    part = SHIPPED.typeset(found[0])
    return [line for piece in sorted(part.pieces, key=lambda one: one.place) for line in piece.text.split("\n")]


def tell_reference(client: TestClient) -> None:
    told = client.post(f"{API}/import", params={"name": REFERENCE.name}, content=REFERENCE.read_bytes())
    assert told.status_code == 201, told.text


def tell(client: TestClient, plural: str, **body: Any) -> dict[str, Any]:
    answer = client.post(f"{API}/{plural}", json=body)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def latest(client: TestClient, **params: Any) -> str:
    answer = client.get(LATEST, params=params)
    assert answer.status_code == 200, answer.text
    return answer.text


def make(client: TestClient, **body: Any) -> dict[str, Any]:
    """A checkpoint, made now, as the API answers it."""
    answer = client.post(f"{API}/sessions/current/checkpoints", json=body)
    assert answer.status_code in (200, 201), answer.text
    told: dict[str, Any] = answer.json()
    return told


def timeless(text: str) -> str:
    """The text with each time of day replaced."""
    return _TIME.sub("2026-12-01T03:20:47Z", text)


def section(name: str, items: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """A stored section."""
    told = {"name": name, "title": name.replace("_", " ").capitalize(), "order": 10, "priority": 10, "pinned": False}
    return told | {"items": items, "data": {}, "more": "sitrep finding list"} | more


def model(*sections: dict[str, Any], name: str = "work") -> dict[str, Any]:
    """A stored checkpoint."""
    return {
        "version": 1,
        "id": "C7",
        "session": {"id": "S1", "name": name},
        "at": "2026-12-01T03:20:47Z",
        "trigger": "idle",
        "cause": "L1 loading",
        "sections": list(sections),
    }


SHIPPED = Templates()
