"""Telling, listing, showing and changing facts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Sitrep

pytestmark = pytest.mark.slow  # each test starts many processes

ROOT = Path(__file__).resolve().parents[2]

# noun, what is told, what the API must then say, a change, and what it must say after that
CASES: list[tuple[str, list[str], dict[str, Any], list[str], dict[str, Any]]] = [
    (
        "finding", ["rejected", "FP8 KV cache", "--reason", "halves", "--evidence", "the log", "--status", "confirmed"],
        {"kind": "rejected", "title": "FP8 KV cache", "evidence": ["the log"], "status": "confirmed"},
        ["--status", "refuted", "--unset", "reason"], {"status": "refuted", "reason": None},
    ),
    (
        "directive", ["Nur echte Gewinne zählen – “keine Tricks”.", "--message", "12"],
        {"text": "Nur echte Gewinne zählen – “keine Tricks”.", "message": 12, "active": True},
        ["--no-active"], {"active": False},
    ),
    (
        "next-step", ["Benchmark it.", "--order", "-1", "--state", "doing"],
        {"text": "Benchmark it.", "order": -1, "state": "doing"},
        ["--text", "Benchmark it twice."], {"text": "Benchmark it twice."},
    ),
    (
        "message", ["4700", "user", "", "--synthetic", "--at", "2026-03-01T14:05:09Z"],
        {"number": 4700, "text": "", "synthetic": True, "at": "2026-03-01T14:05:09Z"},
        ["--no-synthetic"], {"synthetic": False},
    ),
    (
        "artifact", ["/data/x y", "--role", "logs"], {"path": "/data/x y", "role": "logs"},
        ["--note", "old"], {"note": "old"},
    ),
    (
        "bench",
        ["--name", "base", "--baseline", "--metric", "output_throughput=88.8:tok/s:higher", "--config", "steps=2",
         "--workload", "num_prompts=64", "--sample", "ttft_ms=1.5,1.7", "--no-comparable", "--tool", "mine"],
        {"baseline": True, "comparable": False, "config": {"steps": 2}, "workload": {"num_prompts": 64},
         "metrics": {"output_throughput": {"value": 88.8, "unit": "tok/s", "better": "higher"}},
         "samples": {"ttft_ms": [1.5, 1.7]}},
        ["--comparable", "--metric", "output_throughput=94.0:tok/s"],
        {"comparable": True, "metrics": {"output_throughput": {"value": 94.0, "unit": "tok/s"}}},
    ),
    (
        "profile", ["--phase", "verify:calls=400,total_ms=8204.1,mean_ms=20.5"],
        {"phases": [{"name": "verify", "calls": 400, "total_ms": 8204.1, "mean_ms": 20.5}]},
        ["--phase", "draft:calls=1"], {"phases": [{"name": "draft", "calls": 1}]},
    ),
    (
        "training", ["drafter", "--point", "epoch=4,accept_rate=0.47", "--data", "100k synthetic"],
        {"name": "drafter", "points": [{"epoch": 4, "metrics": {"accept_rate": {"value": 0.47}}}], "data": "100k synthetic"},
        ["--model", "/m"], {"model": "/m"},
    ),
    (
        "reference", ["AQ", "--source", "a paper", "--metric", "speedup=1.7"],
        {"name": "AQ", "metrics": {"speedup": {"value": 1.7}}}, ["--note", "n"], {"note": "n"},
    ),
    (
        "sweep", ["steps", "--parameters", '{"speculative_num_steps": [1, 2, 3]}', "--state", "planned"],
        {"parameters": {"speculative_num_steps": [1, 2, 3]}, "state": "planned"}, ["--state", "done"], {"state": "done"},
    ),
    (
        "model", ["/m", "--name", "K2", "--weight-bytes", "547000000000", "--config", "hidden_size=7168"],
        {"path": "/m", "weight_bytes": 547000000000, "config": {"hidden_size": 7168}},
        ["--quantization", "INT4"], {"quantization": "INT4"},
    ),
    (
        "stack", ["--package", "sglang=0.5.16", "--python", "3.12.3", "--git", '[{"path": "/r", "dirty": true}]'],
        {"packages": {"sglang": "0.5.16"}, "python": "3.12.3", "git": [{"path": "/r", "dirty": True}]},
        ["--cuda", "13.0"], {"cuda": "13.0"},
    ),
    (
        "host", ["box", "--gpu", "2xNVIDIA H200", "--interconnect", "NVLink", "--memory-bytes", "1024"],
        {"name": "box", "gpus": [{"index": 0, "name": "NVIDIA H200"}, {"index": 1, "name": "NVIDIA H200"}]},
        ["--note", "n"], {"note": "n"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("noun", "told", "wanted", "change", "changed"), CASES, ids=[case[0] for case in CASES])
def test_a_fact_is_told_listed_shown_and_changed(
    shared: Sitrep, noun: str, told: list[str], wanted: dict[str, Any], change: list[str], changed: dict[str, Any]
) -> None:
    fact = shared(noun, "add", *told, "--json").json
    assert {name: fact.get(name) for name in wanted} == wanted
    assert fact["provenance"] == "told:cli"
    listed = shared(noun, "--json").json
    assert fact["id"] in [one["id"] for one in listed["data"]]
    assert listed["count"] >= 1
    edited = shared(noun, "edit", fact["id"], *change, "--json").json
    assert {name: edited.get(name) for name in changed} == changed
    assert shared(noun, "show", fact["id"].lower(), "--json").json == edited
    table = shared(noun, "list").ok().out
    assert fact["id"] in table.split()
    assert "\x1b" not in table


def test_what_people_read(shared: Sitrep) -> None:
    said = shared("finding", "add", "decision", "tp 8").ok().out
    assert said.split() == [said.split()[0], "stored."]
    shown = shared("show", said.split()[0]).ok().out.splitlines()
    assert "type: finding" in shown
    assert "title: tp 8" in shown
    assert re.fullmatch(
        r"at: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d:\d\d", next(line for line in shown if line.startswith("at: "))
    )


def test_from_json_and_standard_input(shared: Sitrep, tmp_path: Path) -> None:
    whole = {"kind": "constraint", "title": "PCIe only", "detail": "no NVLink"}
    fact = shared(
        "finding", "add", "--from-json", "-", "--detail", "eight GPUs", "--json", stdin=json.dumps(whole)
    ).json
    assert (fact["kind"], fact["title"], fact["detail"]) == ("constraint", "PCIe only", "eight GPUs")
    (tmp_path / "b.json").write_text('{"metrics": {"x": 1421.70}}')
    bench = shared("bench", "add", "--from-json", str(tmp_path / "b.json"), "--json").json
    assert bench["metrics"]["x"]["value"] == 1421.7
    assert "JSON object" in shared("finding", "add", "--from-json", "-", stdin="[1]").refused(2)
    assert "No such file" in shared("finding", "add", "--from-json", str(tmp_path / "no")).refused(2)
    assert shared("directive", "add", "-", "--json", stdin="two\nlines\n").json["text"] == "two\nlines"


def test_next_steps_are_done(shared: Sitrep) -> None:
    step = shared("next", "add", "Do it.", "--json").json
    assert shared("next", "done", step["id"]).ok().out == f"{step['id']} done: Do it.\n"
    assert shared("next-steps", "show", step["id"], "--json").json["state"] == "done"


def test_trials_and_deliveries(shared: Sitrep) -> None:
    sweep = shared("sweep", "add", "s", "--json").json["id"]
    trial = shared("trial", "add", sweep, "--state", "planned", "--json").json
    assert trial["sweep"] == sweep
    assert f"trial {int(trial['id']) + 1} stored." in shared("trial", "add", sweep).ok().out
    checkpoint = shared("checkpoint", "--json").json["id"]
    shared("resume", "--to", "opencode").ok()
    delivery = shared("deliveries", "--json").json["data"][0]
    assert (delivery["checkpoint"], delivery["to"]) == (checkpoint, "opencode")


def test_pages(shared: Sitrep) -> None:
    for number in range(3):
        shared("artifact", "add", f"/page/{number}").ok()
    first = shared("artifact", "list", "--limit", "2", "--json").json
    assert [one["path"] for one in first["data"]] == ["/page/2", "/page/1"]
    second = shared("artifact", "list", "--limit", "2", "--cursor", first["next_cursor"], "--json").json
    assert second["data"][0]["path"] == "/page/0"
    said = shared("artifact", "list", "--limit", "2").ok()
    assert f"--cursor {first['next_cursor']}" in said.err
    assert "cursor" not in said.out


def test_launches_are_recorded(shared: Sitrep) -> None:
    line = "FOO=1 nohup python -m sglang.launch_server --model-path /m > x.log 2>&1 &"
    launch = shared("launch", "record", line, "--state", "loading", "--port", "30000", "--json").json
    assert (launch["command"], launch["state"], launch["watched"]) == (line, "loading", False)
    row = next(one for one in shared("launches").ok().out.splitlines() if one.startswith(f"{launch['id']} "))
    assert "loading (told)" in row
    assert row.endswith(line)
    assert (
        shared("launch", "edit", launch["id"], "--state", "exited", "--exit-code", "1", "--json").json["exit_code"] == 1
    )
    assert (
        "not a process that this daemon follows"
        in shared("watch", shared("launch", "record", "x", "--json").json["id"]).refused()
    )


def test_benchmark_files_are_imported(shared: Sitrep, tmp_path: Path) -> None:
    file = ROOT / "tests/data/bench/sglang-0.5.16-base.jsonl"
    told = shared("bench", "import", str(file), "--name", "base", "--baseline", "--json").json
    assert (told["stored"], told["data"][0]["name"], told["data"][0]["baseline"]) == (1, "base", True)
    again = shared("bench", "import", "-", stdin=file.read_bytes()).ok()
    assert "stored already" in again.out
    assert shared("compare", "--json").json["rows"]
    assert "base" in shared("compare").ok().out
    (tmp_path / "cut.jsonl").write_bytes(file.read_bytes()[:-40])
    assert "cut.jsonl" in shared("bench", "import", str(tmp_path / "cut.jsonl")).refused()
    assert "cannot be read" in shared("bench", "import", str(tmp_path / "no.jsonl")).refused(2)
