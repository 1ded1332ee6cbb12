"""The checkpoint of the reference session, word for word and fact for fact."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoints import telling
from tests.checkpoints.telling import SHIPPED, timeless, written

from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.render import render

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return written(tmp_path_factory.mktemp("store"), telling.lines())


@pytest.mark.parametrize("budget", ["full", "9000", "2000", "1000"])
def test_its_text_is_the_golden_one(reference: dict[str, Any], budget: str) -> None:
    """UPDATE_GOLDEN=1 writes the files anew, to be read before they are committed."""
    text = timeless(render(reference, "md", parse_budget(budget), SHIPPED))
    path = GOLDEN / f"reference-{budget}.md"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def told_values(line: dict[str, Any]) -> list[str]:
    """What a line tells, as it must stand in a text: strings word for word, numbers with all their digits."""
    skip = {
        "type",
        "key",
        "gpus",
        "host",
        "model",
        "after",
        "evidence",
        "kind",
        "baseline",
        "order",
        "metrics",
        "config",
    }
    found = [str(value) for name, value in line.items() if name not in skip]
    found += [f"{one['value']} {one['unit']}" for one in line.get("metrics", {}).values()]
    found += [f"{name}={'null' if value is None else value}" for name, value in line.get("config", {}).items()]
    return found


def test_nine_thousand_characters_hold_every_fact_but_the_messages(reference: dict[str, Any]) -> None:
    text = render(reference, "md", 9000, SHIPPED)
    assert len(text) <= 9000
    for line in telling.lines():
        if line["type"] != "message":
            assert [value for value in told_values(line) if value not in text] == [], line["type"]
    for told in (
        "8 × NVIDIA RTX PRO 6000 Blackwell (GPU 0-7); interconnect PCIe", "547.0 GB (547000000000 bytes)",
        "F1 root cause (confirmed)", "F2 observation (open)", "evidence: R1", "N1 (todo, order 1, after L1)",
        "N2 (todo, order 2, after N1)", "B1 baseline", "| -4.2 % |", "| -2.4 % |", "+5.9 % to the baseline B1 (88.8 tok/s)",
        "The command of this run was not recorded.", "L1 was told as loading when imported", "number 4700, user, empty",
    ):  # fmt: skip
        assert told in text


def test_the_exact_command_stands_on_one_line(reference: dict[str, Any]) -> None:
    command = next(line["command"] for line in telling.lines() if line["type"] == "launch")
    for text in (render(reference, form, most, SHIPPED) for form, most in (("md", 9000), ("md", 2000), ("txt", 9000))):
        assert command in text.split("\n")


def test_the_imported_launch_is_not_said_to_run(reference: dict[str, Any]) -> None:
    text = render(reference, "md", None, SHIPPED)
    assert "not observed here: whether it runs now is not known" in text
    assert "time left" not in text


def plain_session() -> list[dict[str, Any]]:
    """Five wishes, five rejected options, three causes, several steps, one best run with its command, one launch."""
    causes = ("Draft and target disagree on hidden states", "NCCL falls back to TCP", "The draft was quantized twice")
    told: list[dict[str, Any]] = [{"type": "session", "name": "EAGLE-3 tuning", "goal": "Beat 88.8 tok/s."}]
    told += [{"type": "directive", "text": f"Wish {n}: never trade precision for speed."} for n in range(5)]
    told += [
        {"type": "finding", "kind": "rejected", "title": f"Option {n}", "reason": f"It cost {n}.5 % of accept rate.", "status": "confirmed"}
        for n in range(5)
    ]  # fmt: skip
    told += [{"type": "finding", "kind": "root_cause", "title": one, "status": "confirmed"} for one in causes]
    told += [{"type": "next_step", "text": f"Measure {n} steps.", "order": n} for n in (3, 4, 5)]
    serve = "python -m sglang.launch_server --model-path /m --tp-size 8 --speculative-num-steps"
    told += [
        {"type": "launch", "key": "two", "command": f"{serve} 2 --port 30002", "state": "exited", "exit_code": 0},
        {"type": "launch", "key": "three", "command": f"{serve} 3 --port 30003", "state": "loading"},
        {"type": "benchmark", "name": "base", "baseline": True, "metrics": {"output_throughput": 88.8}},
        {"type": "benchmark", "name": "2 steps", "launch": "two", "metrics": {"output_throughput": 94.0}},
    ]
    return told


def test_two_thousand_characters_hold_all_that_is_pinned_of_a_plain_session(tmp_path: Path) -> None:
    text = render(written(tmp_path, plain_session()), "md", 2000, SHIPPED)
    assert len(text) <= 2000
    assert "[…]" not in text
    for line in plain_session():
        values = [value for name, value in line.items() if name in ("title", "reason", "command", "goal")]
        values += [line["text"]] if line["type"] == "directive" else []
        assert [value for value in values if value not in text] == [], line
    for told in ("L2 told as loading", "- N1 (todo, order 3): Measure 3 steps.", "B2 2 steps: 94.0", "+5.9 %", "on L1"):
        assert told in text


@pytest.mark.slow
def test_the_command_of_the_best_run_comes_before_that_of_a_launch_that_is_alive(tmp_path: Path) -> None:
    told = plain_session()
    more = " ".join(f"--flag-{number} value" for number in range(30))
    for line in told:
        if line["type"] == "launch":
            line["command"] += f" {more}"
    best, alive = (line["command"] for line in told if line["type"] == "launch")
    text = render(written(tmp_path, told), "md", 2000, SHIPPED)
    assert best in text.split("\n")
    assert alive not in text
    assert text.count(" — reason: It cost ") == 5
