"""The decimals that were told stay, on every way out."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.cli.running import Sitrep
from tests.daemons import running_daemon

from sitrepd.decimals import unmark

TOLD = ["88.80", "94.0", "94", "0.10", "-3.000", "1421.7", "0.12345678901234567890", "1e+30", "100", "1e-9"]
ONE = '{"name": "run", "metrics": {"output_throughput": {"value": %s, "unit": "tok/s"}}, "samples": {"itl_ms": [1.50, 2]}}'


def test_an_answer_has_the_number_as_it_was_told(client: TestClient) -> None:
    headers = {"Content-Type": "application/json"}
    client.post("/api/v1/sessions", json={"name": "one"})
    for number, told in enumerate(TOLD, 1):
        made = client.post("/api/v1/benchmarks", content=ONE % told, headers=headers)
        assert made.status_code == 201, made.text
        answers = [made, *(client.get(f"/api/v1/{path}/B{number}") for path in ("benchmarks", "facts"))]
        for answer in [*answers, client.get("/api/v1/benchmarks?limit=1")]:
            assert f'"value":{told},' in answer.text.replace("E", "e"), answer.text
            assert '"itl_ms":[1.50,2]' in answer.text
            assert len(answer.content) == int(answer.headers["content-length"])
    changed = client.patch("/api/v1/benchmarks/B1", content=ONE % "7.70", headers=headers)
    assert '"value":7.70,' in changed.text


def test_text_that_looks_like_a_marked_number_stays_text(client: TestClient) -> None:
    name = f"number {'0' * 32} 88.80"
    client.post("/api/v1/sessions", json={"name": "one"})
    body = {"name": name, "metrics": {"output_throughput": {"value": 1, "unit": "tok/s"}}}
    assert client.post("/api/v1/benchmarks", json=body).json()["name"] == name
    assert unmark(b'{"name":"number 88.80"}') == b'{"name":"number 88.80"}'


@pytest.mark.slow
def test_the_description_says_number(client: TestClient) -> None:
    shapes = client.get("/api/v1/openapi.json").json()["components"]["schemas"]
    assert shapes["Measure-Output"]["properties"]["value"]["anyOf"] == [{"type": "number"}, {"type": "integer"}]


@pytest.mark.slow
def test_the_command_line_prints_them_so(tmp_path: Path) -> None:
    sitrep = Sitrep(tmp_path / "store", tmp_path)
    with running_daemon(sitrep.store):
        sitrep("session", "open", "one").ok()
        sitrep("bench", "add", "--name", "base", "--metric", "output_throughput=88.80:tok/s").ok()
        assert '"value":88.80,' in sitrep("bench", "list", "--json").ok().out
        for words in (("bench", "list"), ("bench", "show", "B1"), ("show", "B1"), ("compare",)):
            assert "88.80 tok/s" in sitrep(*words).ok().out, words
