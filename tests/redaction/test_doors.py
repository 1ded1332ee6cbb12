"""A token told at each door is found nowhere afterwards: not in answers, pages, exports, errors, logs or the store's files."""

from __future__ import annotations

import json
import logging
import logging.config
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.redaction.corpus import TOKENS

from sitrepd.logs import Redacted, log_config
from sitrepd.slices import load_registry

TOKEN = TOKENS["hugging face"](random.Random(9))
SAID = f"it says HF_TOKEN={TOKEN} here"
FACTS: dict[str, dict[str, Any]] = {
    "messages": {"number": 1, "role": "user", "text": SAID},
    "directives": {"text": SAID},
    "findings": {"kind": "observation", "title": SAID, "detail": SAID, "reason": SAID, "evidence": [SAID]},
    "next-steps": {"text": SAID, "order": 1},
    "artifacts": {"path": f"/data/{TOKEN}/x", "role": SAID, "note": SAID},
    "hosts": {"name": f"box {TOKEN}", "os": SAID, "note": SAID, "topology": [[SAID]], "disks": {SAID: SAID}},
    "models": {"path": f"/m/{TOKEN}", "name": SAID, "config": {"auth": SAID}, "note": SAID},
    "stacks": {"packages": {"x": SAID}, "os": SAID, "git": [{"path": f"/g/{TOKEN}", "commit": "abc"}]},
    "launches": {
        "start": False, "name": SAID, "command": f"HF_TOKEN={TOKEN} python -m sglang.launch_server --api-key {TOKEN}",
        "cwd": f"/w/{TOKEN}", "log_path": f"/l/{TOKEN}.log", "model": f"/m/{TOKEN}", "phases": [{"name": SAID}],
    },
    "benchmarks": {
        "name": SAID, "tool": SAID, "config": {"k": SAID, SAID: 1}, "workload": {"url": f"http://u:{TOKEN}@h"},
        "note": SAID, "artifact": f"/b/{TOKEN}.jsonl", "metrics": {f"m {TOKEN}": {"value": 1, "unit": SAID}},
        "samples": {f"s {TOKEN}": [1]},
    },
    "profiles": {"phases": [{"name": SAID, "calls": 1}]},
    "trainings": {
        "name": SAID, "data": {"path": SAID}, "note": SAID, "points": [{"epoch": 1, "metrics": {f"loss {TOKEN}": 1}}],
    },
    "references": {"name": SAID, "source": SAID, "note": SAID, "metrics": {f"m {TOKEN}": 2}},
    "sweeps": {"name": SAID, "template": {"argv": ["--api-key", TOKEN]}, "parameters": {"p": [SAID]}, "state": SAID},
}  # fmt: skip


def written(folder: Path) -> list[str]:
    """Files of the store that hold the token."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path) for path in files if TOKEN.encode() in path.read_bytes()]


def everything(client: TestClient) -> dict[str, str]:
    """All that can be read of a store."""
    nouns = [noun.plural for noun in load_registry().nouns]
    paths = [
        *(f"/api/v1/{plural}?limit=1000" for plural in nouns), "/api/v1/events?limit=1000", "/api/v1/folders",
        "/api/v1/sessions/current/export", "/api/v1/sessions/current/comparison",
        *(f"/api/v1/sessions/current/checkpoints/latest?format={kind}" for kind in ("md", "json", "html", "txt")),
    ]  # fmt: skip
    return {path: client.get(path).text for path in paths}


@pytest.fixture
def told(client: TestClient) -> TestClient:
    session = {"name": f"s {TOKEN}", "goal": SAID}
    client.post("/api/v1/sessions", json=session).raise_for_status()
    return client


def test_a_token_in_any_field_of_any_fact_is_stored_nowhere(told: TestClient, tmp_path: Path) -> None:
    assert {noun.plural for noun in load_registry().nouns if noun.writable and noun.portable} - set(FACTS) <= {
        "sessions", "trials", "commands", "compactions", "deliveries",
    }  # fmt: skip
    for plural, body in FACTS.items():
        answer = told.post(f"/api/v1/{plural}", json=body | {"provenance": f"told by {TOKEN}"})
        assert answer.status_code == 201, answer.text
        assert TOKEN not in answer.text, plural
    told.post("/api/v1/sessions/current/checkpoints").raise_for_status()
    left = {path for path, text in everything(told).items() if TOKEN in text}
    assert left == set()
    assert written(tmp_path) == []


def test_a_token_in_how_a_checkpoint_is_asked_for_or_handed_over_is_stored_nowhere(
    told: TestClient, tmp_path: Path
) -> None:
    asked = {"checkpoints": {"trigger": TOKEN, "cause": SAID}, "resume": {"to": TOKEN}, "echo": {"text": f"C1 {TOKEN}"}}
    for verb, body in asked.items():
        answer = told.post(f"/api/v1/sessions/current/{verb}", json=body)
        assert answer.is_success, answer.text
        assert TOKEN not in answer.text
    told.post("/api/v1/sessions/current/checkpoints", json={"trigger": TOKEN}).raise_for_status()  # no fact has changed
    for plural, body in {
        "deliveries": {"checkpoint": "C1", "to": TOKEN, "budget": 2000},
        "compactions": {"client": SAID, "conversation": TOKEN, "summary": SAID},
        "commands": {"command": f"login --token {TOKEN}", "output": SAID},
        "claims": {"resource": "port", "numbers": [8000], "owner": TOKEN, "why": SAID},
    }.items():
        fact = told.post(f"/api/v1/{plural}", json=body)
        assert fact.status_code == 201, fact.text
        assert TOKEN not in fact.text
    left = {path for path, text in everything(told).items() if TOKEN in text}
    assert left == set()
    assert written(tmp_path) == []


@pytest.mark.slow
def test_a_token_in_a_change_is_stored_nowhere(told: TestClient, tmp_path: Path) -> None:
    finding = told.post("/api/v1/findings", json={"kind": "observation", "title": "x"}).json()["id"]
    told.patch(f"/api/v1/findings/{finding}", json={"title": SAID, "evidence": [SAID]}).raise_for_status()
    launch = told.post("/api/v1/launches", json={"start": False, "command": "x"}).json()["id"]
    told.patch(f"/api/v1/launches/{launch}", json={"name": SAID, "log_path": f"/{TOKEN}"}).raise_for_status()
    assert TOKEN not in "".join(everything(told).values())
    assert written(tmp_path) == []


def test_a_token_in_a_file_or_its_name_is_stored_nowhere(told: TestClient, tmp_path: Path) -> None:
    lines = [
        json.dumps({"type": "directive", "text": SAID}),
        json.dumps({"type": "finding", "key": TOKEN, "kind": "observation", "title": SAID}),
    ]
    name = {"name": f"{TOKEN}.jsonl"}
    answer = told.post("/api/v1/import", content="\n".join(lines), params=name)
    assert answer.status_code == 201, answer.text
    again = told.post("/api/v1/import", content="\n".join(lines), params=name)
    assert again.status_code == 409
    assert TOKEN not in again.text
    result = json.loads((Path(__file__).parents[1] / "data/bench/sglang-0.5.16-base.jsonl").read_text().splitlines()[0])
    result["server_info"]["api_key"] = TOKEN
    result["tag"] = SAID
    taken = told.post("/api/v1/benchmarks/import", content=json.dumps(result), params=name | {"label": SAID})
    assert taken.status_code == 201, taken.text
    assert TOKEN not in "".join([taken.text, *everything(told).values()])
    assert written(tmp_path) == []


def test_a_token_that_was_backfilled_is_stored_nowhere(told: TestClient, tmp_path: Path) -> None:
    path = f"/logs/{TOKEN}/s.log"
    fact = {"name": SAID, "log_path": path, "state": "failed", "command": f"x --api-key {TOKEN}"}
    body = {
        "host": f"h {TOKEN}",
        "launches": [
            {
                "key": "k", "path": path, "fact": fact, "settings": {"api_key": TOKEN, "x": SAID}, "failure": SAID,
                "warnings": [SAID], "throughput": {"other": {SAID: 1}},
                "sizes": [{"name": f"n {TOKEN}", "value": 1, "unit": SAID}],
            }
        ],
        "findings": [{"key": "f", "path": path, "fact": FACTS["findings"], "launches": ["k"]}],
    }  # fmt: skip
    answer = told.post("/api/v1/backfill", json=body)
    assert answer.status_code == 200, answer.text
    assert TOKEN not in "".join([answer.text, *everything(told).values()])
    assert written(tmp_path / "store") == []


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", f"/api/v1/launches/{TOKEN}", {}),
        ("GET", f"/api/v1/facts/{TOKEN}", {}),
        ("GET", f"/api/v1/{TOKEN}", {}),
        ("GET", f"/{TOKEN}", {}),
        ("GET", f"/api/v1/facts/%7B%5C%22secret_key%5C%22:%20%5C%22{TOKEN[3:]}%5C%22%7D", {}),
        ("GET", "/api/v1/findings", {"params": {"cursor": TOKEN}}),
        ("GET", "/api/v1/findings", {"params": {"limit": TOKEN}}),
        ("GET", "/api/v1/findings", {"headers": {"X-Sitrep-Session": TOKEN}}),
        ("GET", f"/api/v1/sessions/{TOKEN}/findings", {}),
        ("GET", "/api/v1/sessions/current/comparison", {"params": {"metric": TOKEN}}),
        ("GET", "/api/v1/sessions/current/checkpoints/latest", {"params": {"budget": TOKEN}}),
        ("GET", "/api/v1/sessions/current/checkpoints/latest", {"params": {"format": TOKEN}}),
        ("POST", "/api/v1/findings", {"json": {"kind": TOKEN, "title": "x"}}),
        ("POST", "/api/v1/findings", {"json": {"kind": "observation", "title": "x", TOKEN: 1}}),
        ("POST", "/api/v1/findings", {"json": {"kind": "observation", "title": "x", "supersedes": TOKEN}}),
        ("POST", "/api/v1/findings", {"content": f'{{"title": {TOKEN}'}),
        ("POST", "/api/v1/benchmarks", {"json": {"launch": TOKEN}}),
        ("POST", "/api/v1/benchmarks", {"json": {"metrics": {TOKEN: "x"}}}),
        ("POST", "/api/v1/launches", {"json": {"command": f"HF_TOKEN={TOKEN} 'open", "cwd": "/"}}),
        ("POST", "/api/v1/launches", {"json": {"command": f"/no/such/{TOKEN} --api-key {TOKEN}", "cwd": "/"}}),
        ("POST", "/api/v1/launches", {"json": {"command": "true", "cwd": f"/nowhere/{TOKEN}"}}),
        ("POST", "/api/v1/import", {"content": f'{{"type": "{TOKEN}"}}'}),
        ("POST", "/api/v1/import", {"content": f'{{"type": "finding", "kind": "{TOKEN}", "title": "x"}}'}),
        ("POST", "/api/v1/import", {"content": f'{{"type": "benchmark", "launch": "{TOKEN}"}}'}),
        ("POST", "/api/v1/import", {"content": f"{TOKEN} is no JSON", "params": {"name": f"{TOKEN}.jsonl"}}),
        ("POST", "/api/v1/benchmarks/import", {"content": f'{{"{TOKEN}": 1}}', "params": {"name": TOKEN}}),
        ("POST", "/api/v1/benchmarks/import", {"content": f"{TOKEN} {{", "params": {"name": TOKEN}}),
        ("POST", "/api/v1/sessions/current/folders", {"json": {"path": f"relative/{TOKEN}", "x": TOKEN}}),
        ("PATCH", f"/api/v1/findings/{TOKEN}", {"json": {"title": "x"}}),
    ],
)  # fmt: skip
def test_an_error_does_not_echo_a_token(
    told: TestClient, tmp_path: Path, caplog: pytest.LogCaptureFixture, method: str, path: str, asked: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG, "sitrepd")
    answer = told.request(method, path, **asked)
    assert answer.status_code >= 400 or "metric" in str(asked), answer.text
    assert TOKEN[3:] not in answer.text
    assert TOKEN not in "".join(record.getMessage() for record in caplog.records if record.name.startswith("sitrepd"))
    assert written(tmp_path) == []


def test_the_daemons_own_log_shows_none() -> None:
    config = log_config("warning")
    formatter = Redacted(config["formatters"]["default"]["fmt"])
    try:
        raise ValueError(SAID)
    except ValueError:
        record = logging.LogRecord("sitrepd", logging.ERROR, "x", 1, "GET /x?token=%s", (TOKEN,), sys.exc_info())
    line = formatter.format(record)
    assert "Traceback" in line
    assert TOKEN not in line
    assert config["loggers"]["sitrepd"]["level"] == "WARNING"
    logging.config.dictConfig(config | {"loggers": {}})


def test_a_server_that_prints_a_token_shows_none(told: TestClient, tmp_path: Path) -> None:
    log = tmp_path / "s.log"
    log.write_text(f"[2026-12-01 01:20:40] server_args={{'api_key': '{TOKEN}'}}\nHF_TOKEN={TOKEN}\n")
    launch = told.post("/api/v1/launches", json={"start": False, "command": "x", "log_path": str(log)}).json()["id"]
    answer = told.get(f"/api/v1/launches/{launch}/log")
    assert answer.status_code == 200, answer.text
    assert "server_args" in answer.text
    assert TOKEN not in answer.text
