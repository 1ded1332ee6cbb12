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
