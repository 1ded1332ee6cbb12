"""The published JSON Schema says what checkpoints as JSON are, and the real ones are so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fastapi.testclient import TestClient
from tests.checkpoints import telling
from tests.checkpoints.telling import API, latest, make, tell, tell_reference, written

from sitrepd.checkpoints.render import render
from sitrepd.checkpoints.schema import schema

CHECK = jsonschema.Draft202012Validator(schema(), format_checker=jsonschema.FormatChecker())
LONG = "word " * 400


def check(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text)
    CHECK.validate(told)
    return told


def test_it_is_a_schema_and_the_route_gives_it(client: TestClient) -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    assert client.get(f"{API}/schemas/checkpoint").json() == schema()


@pytest.mark.slow
def test_what_the_api_gives_is_as_it_says(client: TestClient) -> None:
    tell_reference(client)
    assert check(latest(client, format="json"))["trigger"] == "asked"
    for kind in ("rejected", "root_cause", "hypothesis", "decision"):
        for number in range(9):
            tell(client, "findings", kind=kind, title=f"{kind} {number}", reason=LONG, status="confirmed", supersedes="F3" if kind == "decision" else None)  # fmt: skip
    tell(client, "launches", command="serve --port 1", state="failed", start=False)
    tell(client, "benchmarks", metrics={"output_throughput": 3}, launch="L2")
    make(client, trigger="before compaction")
    for budget in ("full", "9000", "4000", "1500"):
        told = check(latest(client, format="json", budget=budget))
        assert bool(told["left_out"]) == (budget != "full")
    stored = client.get(f"{API}/checkpoints/C2", params={"format": "json"})
    assert check(stored.text)["id"] == "C2"


def test_the_file_beside_the_store_is_as_it_says(client: TestClient, tmp_path: Path) -> None:
    tell_reference(client)
    make(client)
    assert check((tmp_path / "store/latest/S1.json").read_text())["id"] == "C1"


@pytest.mark.parametrize(
    "spoiled",
    [{"id": "15"}, {"version": 2}, {"sections": [{"name": "x"}]}, {"left_out": None}, {"more": 1}, {"at": 5}],
)
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, spoiled: dict[str, Any]) -> None:
    told = json.loads(render(written(tmp_path, telling.lines()), "json", None, telling.SHIPPED))
    CHECK.validate(told)
    assert not CHECK.is_valid(told | spoiled)


def test_a_stored_one_has_an_etag_in_every_form(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    make(client)
    for url in (f"{API}/checkpoints/C1", f"{API}/checkpoints/C1?format=html&budget=2000", "/checkpoints/C1"):
        first = client.get(url)
        assert first.status_code == 200, first.text
        assert client.get(url, headers={"if-none-match": first.headers["etag"]}).status_code == 304
        assert client.get(url, headers={"if-none-match": '"x"'}).content == first.content


def test_a_checkpoint_has_a_page_of_its_own_to_print(client: TestClient) -> None:
    tell_reference(client)
    make(client)
    page = client.get("/checkpoints/C1")
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'"
    assert "@media print" in page.text
    assert "94.0 tok/s" in page.text
    assert client.get("/checkpoints/C9").status_code == 404
    assert client.get("/checkpoints/C1?budget=3").status_code == 422
