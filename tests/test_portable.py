"""The portable session file: in, out, and back to the same facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

REFERENCE = Path(__file__).parent / "data" / "reference-session.jsonl"

# One line of each type, with every field, naming each other by keys before and after they are defined.
EVERY_TYPE: list[dict[str, Any]] = [
    {"type": "session", "key": "#s", "name": "all", "goal": "every type", "best_metric": "median_ttft_ms",
     "started_at": "2026-11-30T10:00:00+02:00", "ended_at": "2026-11-30T20:00:00+02:00"},
    {"type": "host", "key": "#box", "name": "box", "os": "Debian 12", "cpu": "EPYC", "cpu_count": 64, "memory_bytes": 2**40,
     "gpus": [{"index": 0, "name": "H200", "memory_bytes": 150754820096, "uuid": "GPU-1", "pcie": "gen5 x16", "architecture": "Hopper"}],
     "interconnect": "NVLink", "topology": [["X", "NV18"], ["NV18", "X"]], "numa": {"0": [0, 1]},
     "disks": [{"path": "/", "free_bytes": 5}], "note": "rack 4"},
    {"type": "message", "number": 7, "role": "user", "text": "", "synthetic": True, "at": "2026-11-30T10:01:00Z"},
    {"type": "directive", "key": "#d", "text": "Never lower precision.", "message": 7, "active": False},
    {"type": "stack", "key": "#k", "host": "#box", "launch": "#l", "packages": {"sglang": "0.5.16"}, "driver": "580.159",
     "cuda": "13.0", "python": "3.12.3", "os": "Debian 12", "git": [{"path": "/src", "commit": "abc", "dirty": True}]},
    {"type": "model", "key": "#draft", "path": "/m/draft", "name": "draft", "config": {"layers": 1}, "weight_bytes": 1460000000,
     "parameters": 730000000, "active_parameters": 730000000, "quantization": "BF16", "kv_bytes_per_token": 4096,
     "kv_tokens": 433952, "target": "#target", "note": "EAGLE-3"},
    {"type": "model", "key": "#target", "path": "/m/target"},
    {"type": "launch", "key": "#l", "name": "two steps", "engine": "sglang", "command": "python -m sglang.launch_server --port 1",
     "cwd": "/m", "host": "#box", "log_path": "/m/log", "port": 30000, "model": "#target", "draft_model": "#draft",
     "state": "ready", "phases": [{"name": "load_weights", "started_at": "2026-11-30T09:00:00Z",
     "ended_at": "2026-11-30T09:15:00Z", "progress": 1.0}], "ready_at": "2026-11-30T09:16:00Z",
     "started_at": "2026-11-30T09:00:00Z", "ended_at": "2026-11-30T12:00:00Z", "exit_code": 0, "warnings": ["page_size is 64"]},
    {"type": "launch", "key": "#l2", "engine": "vllm", "argv": ["vllm", "serve", "/m"], "env": {"A": "b"}, "model": "/other",
     "state": "failed", "exit_code": -9, "exit_signal": 9, "failure": "out of memory"},
    {"type": "benchmark", "key": "#b", "name": "run", "launch": "#l", "tool": "sglang.bench_serving", "baseline": True,
     "comparable": False, "config": {"steps": 2, "x": 0.88}, "workload": {"num_prompts": 16},
     "metrics": {"output_throughput": {"value": 94.0, "unit": "tok/s", "better": "higher"}, "completed": 16,
                 "median_ttft_ms": {"value": 1421.7, "unit": "ms", "better": "lower"}},
     "samples": {"output_throughput": [93.9, 94.1, 94.00]}, "note": "odd one", "artifact": "/m/run.jsonl"},
    {"type": "profile", "key": "#p", "benchmark": "#b", "phases": [{"name": "verify", "calls": 400, "total_ms": 8204.1, "mean_ms": 20.5}]},
    {"type": "training", "key": "#t", "name": "drafter", "model": "#draft", "points": [
        {"epoch": 1, "metrics": {"accept_rate": {"value": 0.19}}}, {"step": 200, "metrics": {"loss": 2.5, "lr": 0.0001}}],
     "data": {"samples": 100000}, "note": "100k"},
    {"type": "reference", "key": "#r", "name": "paper", "source": "arXiv", "metrics": {"accept_len": 3.1}, "note": "8 GPUs"},
    {"type": "finding", "key": "#f", "kind": "rejected", "title": "FP8 KV", "detail": "slow", "reason": "16 tok/s",
     "evidence": ["#b", "#later", "seen by eye"], "status": "confirmed"},
    {"type": "finding", "key": "#later", "kind": "observation", "title": "new", "supersedes": "#old", "status": "open"},
    {"type": "finding", "key": "#old", "kind": "hypothesis", "title": "old", "status": "superseded"},
    {"type": "next_step", "key": "#n2", "text": "then", "order": 2, "after": ["#n1", "#l"], "state": "doing"},
    {"type": "next_step", "key": "#n1", "text": "first", "order": 1, "state": "done"},
    {"type": "artifact", "key": "#a", "path": "/m/log", "host": "#box", "role": "log", "note": "of two steps"},
    {"type": "sweep", "key": "#w", "name": "steps", "template": {"command": "x"}, "parameters": {"steps": [1, 2]},
     "constraints": ["d == s + 1"], "state": "paused"},
    {"type": "trial", "sweep": "#w", "launch": "#l", "benchmarks": ["#b"], "state": "done"},
    {"type": "checkpoint", "key": "#c", "number": 14, "trigger": "idle", "rendered": {"sections": []}},
    {"type": "delivery", "checkpoint": "#c", "to": "opencode", "budget": 9000, "echoed": True},
]  # fmt: skip


def put(client: TestClient, text: str, **params: Any):
    return client.post("/api/v1/import", content=text.encode(), params={"name": "in.jsonl", **params})


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def without_keys(exported: list[dict[str, Any]]) -> list[str]:
    """Lines with keys replaced by what they name, so that two stores can be compared."""
    names = {line["key"]: f"{line['type']}:{line.get('name') or line.get('title') or line.get('text') or line.get('path')}"
             for line in exported if "key" in line}  # fmt: skip

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return [name(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    return sorted(
        json.dumps({field: name(value) for field, value in line.items()}, sort_keys=True) for line in exported
    )


def test_the_reference_session_goes_in_and_comes_out(client: TestClient) -> None:
    told = put(client, REFERENCE.read_text())
    assert told.status_code == 201
    out = lines(client.get(f"/api/v1/sessions/{told.json()['session']}/export").text)
    by_type: dict[str, list[dict[str, Any]]] = {}
    for line in out:
        by_type.setdefault(line["type"], []).append(line)
    keys = told.json()["keys"]
    for line in lines(REFERENCE.read_text()):
        wanted = {
            field: value
            for field, value in line.items()
            if field not in ("key", "after", "evidence", "model", "host", "metrics")
        }
        assert any(wanted.items() <= found.items() for found in by_type[line["type"]]), line
        for field in ("after", "evidence"):
            if field in line:
                assert any(found.get(field) == [keys[item] for item in line[field]] for found in by_type[line["type"]])
    assert [line["metrics"]["output_throughput"]["value"] for line in by_type["benchmark"]] == [88.8, 85.1, 94.0, 86.7]
    assert by_type["launch"][0]["model"] == keys["kimi"]
    assert by_type["launch"][0]["provenance"] == "imported:in.jsonl"


def test_every_type_and_field_comes_out_as_it_went_in(client: TestClient) -> None:
    text = "\n".join(json.dumps(line) for line in EVERY_TYPE)
    told = put(client, text)
    assert told.status_code == 201, told.text
    out = lines(client.get(f"/api/v1/sessions/{told.json()['session']}/export").text)
    assert len(out) == len(EVERY_TYPE)
    keys = told.json()["keys"]
    for line in EVERY_TYPE:
        found = next(one for one in out if one["type"] == line["type"] and _same(one, line, keys))
        for field, value in line.items():
            if field in ("type", "key"):
                continue
            assert _plain(found.get(field)) == _plain(_named(value, keys)), (line["type"], field)


def _same(found: dict[str, Any], line: dict[str, Any], keys: dict[str, str]) -> bool:
    return "key" not in found or "key" not in line or found["key"] == keys.get(line["key"])


def _named(value: Any, keys: dict[str, str]) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [keys.get(item, item) for item in value]
    return keys.get(value, value) if isinstance(value, str) else value


def _plain(value: Any) -> Any:
    """Instants compared as instants, and a bare number as the measure that it means."""
    if isinstance(value, dict):
        if value and all(isinstance(one, int | float | dict) for one in value.values()):
            return {
                key: one["value"] if isinstance(one, dict) and "value" in one else _plain(one)
                for key, one in value.items()
            }
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and value[:2] == "20" and "T" in value:
        from datetime import datetime

        return datetime.fromisoformat(value).timestamp()
    return value


def test_what_is_exported_imports_to_the_same_facts(client: TestClient) -> None:
    first = put(client, "\n".join(json.dumps(line) for line in EVERY_TYPE)).json()["session"]
    text = client.get(f"/api/v1/sessions/{first}/export").text
    second = put(client, text).json()["session"]
    again = client.get(f"/api/v1/sessions/{second}/export").text
    assert first != second
    assert without_keys(lines(again)) == without_keys(lines(text))


def test_a_number_keeps_its_decimals(client: TestClient) -> None:
    text = '{"type":"session","name":"s"}\n{"type":"benchmark","name":"b","metrics":{"x":94.00,"y":1421.70,"z":7}}'
    session = put(client, text).json()["session"]
    out = client.get(f"/api/v1/sessions/{session}/export").text
    assert '"value": 94.00' in out
    assert '"value": 1421.70' in out
    assert '"value": 7}' in out


BAD_LINES = [
    ('{"type":"benchmark","metrics":{"x":"fast"}}', "metrics.x"),
    ('{"type":"benchmark","nmae":"x"}', "nmae: unknown field"),
    ('{"type":"bench"}', "unknown or missing type"),
    ('{"name":"x"}', "unknown or missing type"),
    ('{"type":"finding","kind":"guess","title":"x"}', "kind"),
    ('{"type":"finding","kind":"rejected"}', "title: field required"),
    ('{"type":"launch","port":70000}', "port"),
    ('{"type":"launch","host":"nowhere"}', "'nowhere' is no id of a host"),
    ('{"type":"next_step","text":"x","after":["L99"]}', "there is no fact 'L99'"),
    ('{"type":"message","number":1.5,"role":"user","text":""}', "number"),
    ('{"type":"message","number":1,"role":"user","text":"","at":"2026-01-01T00:00:00"}', "at"),
    ('{"type":"directive","text":"x","key":5}', "key is text"),
    ('{"type":"directive","text":"x"', "not JSON"),
    ('{"type":"benchmark","metrics":{"x":NaN}}', "not JSON"),
    ("[1]", "each line is one JSON object"),
    ('{"type":"directive","text":"x","key":"s"}', "key 's' was used in line 1 already"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "why"), BAD_LINES)
def test_one_bad_line_refuses_the_whole_file(client: TestClient, line: str, why: str) -> None:
    text = '{"type":"session","key":"s","name":"x"}\n{"type":"directive","text":"fine"}\n' + line
    told = put(client, text)
    assert told.status_code == 422
    assert told.headers["content-type"] == "application/problem+json"
    assert told.json()["detail"].startswith("in.jsonl, line 3: ")
    assert why in told.json()["detail"]
    assert client.get("/api/v1/sessions").json()["count"] == 0
    assert client.get("/api/v1/directives").json()["count"] == 0


def test_a_file_that_is_not_text(client: TestClient) -> None:
    told = client.post(
        "/api/v1/import", content=b'{"type":"session","name":"x"}\n\xff\xfe', params={"name": "in.jsonl"}
    )
    assert "line 2: not UTF-8" in told.json()["detail"]


def test_an_empty_file(client: TestClient) -> None:
    assert "the file is empty" in put(client, "").json()["detail"]


@pytest.mark.slow
def test_the_same_file_twice(client: TestClient) -> None:
    assert put(client, REFERENCE.read_text()).status_code == 201
    told = put(client, REFERENCE.read_text())
    assert told.status_code == 409
    assert "was imported already, as S1" in told.json()["detail"]
    assert put(client, REFERENCE.read_text(), again=True).status_code == 201


def test_facts_without_a_session_line_go_to_the_session_that_is_meant(client: TestClient) -> None:
    line = '{"type":"directive","text":"later"}'
    assert put(client, line).status_code == 409
    client.post("/api/v1/sessions", json={"name": "open"})
    assert put(client, line).json()["session"] == "S1"
    assert client.get("/api/v1/sessions/S1/directives").json()["count"] == 1


def test_an_imported_launch_is_no_process(client: TestClient) -> None:
    put(client, REFERENCE.read_text())
    launch = client.get("/api/v1/launches/L1").json()
    assert (launch["state"], launch["watched"]) == ("loading", False)
    assert "pid" not in launch
    assert client.get("/api/v1/launches/L1/live").json()["watched"] is False
    assert client.post("/api/v1/launches/L1/stop").status_code == 409


def test_a_key_of_a_line_without_an_id_never_reads_as_the_id_of_another_fact(client: TestClient) -> None:
    told: list[dict[str, Any]] = [
        {"type": "session", "name": "s"},
        {"type": "model", "name": "the card that is M1"},
        {"type": "message", "key": "m1", "number": 4700, "role": "user", "text": ""},
        {"type": "finding", "kind": "observation", "title": "t", "evidence": ["m1"]},
    ]
    outcome = put(client, "\n".join(map(json.dumps, told))).json()
    assert outcome["keys"] == {}
    assert client.get("/api/v1/findings/F1").json()["evidence"] == ["message 4700"]
    waits = {"type": "next_step", "text": "n", "after": ["m1"]}
    refused = put(client, "\n".join(map(json.dumps, [*told, waits])))
    assert refused.status_code == 422
    assert "line 5: after: 'message 4700' is no id of a fact" in refused.json()["detail"]
