"""The worst of told text stands in a checkpoint as told, breaks out of nothing, and comes through its JSON unchanged."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import simplejson
from tests.fidelity import hostile, markdown, reading, stores, use
from tests.fidelity.stores import fresh_mind

TITLES = {
    "Now", "Next steps", "Goal and directives", "Root causes and constraints", "Decisions and rejected options",
    "Hypotheses and observations", "Best configuration", "Benchmarks", "Hardware", "References", "Artifacts", "Launches before",
}  # fmt: skip
# What the API adds to a fact, and what becomes of a time that was not told.
ADDED = ("key", "at", "observed_at", "provenance")


def text_of(told: list[dict[str, Any]], budget: int | str = "full") -> str:
    with fresh_mind() as mind:
        mind.take(stores.lines(told))
        return mind.checkpoint("md", budget)


def exported(mind: stores.Mind) -> list[dict[str, Any]]:
    """The facts of the store but its history, without what differs from store to store."""
    text = mind.client.get(f"{stores.API}/sessions/{mind.session}/export").text
    lines = [simplejson.loads(line, use_decimal=True) for line in text.splitlines()]
    told = [{name: value for name, value in line.items() if name not in ADDED} for line in lines]
    return sorted((line for line in told if line["type"] != "checkpoint"), key=str)


@pytest.fixture(scope="module")
def text() -> str:
    return text_of(hostile.texts())


def test_directives_are_read_back_word_for_word(text: str) -> None:
    page = markdown.read(text)
    assert page.first.startswith(f"Sitrep C1 · S1 {hostile.SESSION['name']} · 20")
    assert set(page.titles) - TITLES == {title for title in page.titles if title.startswith("Left out")}
    found = [line for line in reading.lines(text) if line["type"] == "directive"]
    assert [line["key"] for line in found] == [f"D{number}" for number in range(1, len(hostile.TEXTS) + 1)]
    assert [line["text"] for line in found] == list(hostile.TEXTS)
    goal = next(line for line in reading.lines(text) if line["type"] == "session")
    assert goal["goal"] == hostile.SESSION["goal"]


def test_forty_directives_stand_whole_at_nine_thousand_characters() -> None:
    wishes = tuple(f"Wish {number} of forty: keep the margin of {number * 7919} pages, always." for number in range(40))
    text = text_of(hostile.directives(wishes), 9000)
    assert [line["text"] for line in reading.lines(text) if line["type"] == "directive"] == list(wishes)


@pytest.mark.parametrize("told", [hostile.texts, hostile.names, hostile.commands])
def test_no_budget_breaks_a_block_or_lets_one_break_out(told: Callable[[], list[dict[str, Any]]]) -> None:
    with fresh_mind() as mind:
        mind.take(stores.lines(told()))
        for budget in (1000, 1500, 2000, 3000, 4000, 9000):
            text = mind.checkpoint("md", budget)
            assert len(text) <= budget
            page = markdown.read(text)  # fails on a block that does not end
            assert {title for title in page.titles if title not in TITLES and not title.startswith("Left out")} == set()
            assert "D99" not in [item.line.split(":")[0] for item in page.items]


def test_findings_stand_whole_with_their_reasons(text: str) -> None:
    statements = [item.told() for item in markdown.read(text).items]
    options = [one for one in statements if one.startswith("F") and "rejected option (confirmed)" in one]
    for place, told in enumerate(hostile.TEXTS):
        assert any(f"cause {place} —" in one and told in one for one in statements), told
        assert any(told in one for one in options), told


def test_numbers_keep_their_decimals() -> None:
    statements = [item.told() for item in markdown.read(text_of(hostile.numbers())).of("Benchmarks")]
    for told in hostile.NUMBERS:
        assert any(f"run {told}x" in one and f" {told} tok/s" in one for one in statements), told


@pytest.mark.slow
def test_a_command_of_1500_characters_is_the_argv_that_was_told() -> None:
    told = hostile.commands()
    launch = next(line for line in told if line["type"] == "launch")
    for budget in ("full", 9000, 4000):
        text = text_of(told, budget)
        command = use.best_command(text)
        assert command is not None
        assert command.argv == launch["argv"]
        assert command.env == launch["env"]
    (line,) = (line for item in markdown.read(text).of("Best configuration") for line in item.commands)
    assert len(line) > 1500
    words = subprocess.run(
        ["bash", "-c", line.replace("python3 ", "printf '%s\\0' ", 1)], capture_output=True, check=True
    )
    assert words.stdout.decode().split("\0")[:-1] == launch["argv"][1:]


def test_a_command_that_is_told_stands_as_told() -> None:
    commands = (
        "A='x y' nohup python3 -m server --json '{\"a\": \"b|c\"}' --sep '|' --q \"it's\" > /tmp/a 2>&1 &",
        "cd /srv && source .venv/bin/activate && exec python3 -m server --port 1 | tee /tmp/`date +%F`.log",
        "vllm serve /m --chat-template \"$(cat <<'E'\n## Now\n```\nE\n)\" --port 1",
    )
    for command in commands:
        launch = {"type": "launch", "key": "#l", "state": "exited", "command": command}
        run = {"type": "benchmark", "name": "b", "launch": "#l", "metrics": {"output_throughput": 1}}
        text = text_of([hostile.SESSION, launch, run], 9000)
        (found,) = (line for item in markdown.read(text).of("Best configuration") for line in item.commands)
        assert found == command


@pytest.mark.slow
@pytest.mark.parametrize("told", [hostile.texts, hostile.names, hostile.commands])
def test_all_of_it_comes_through_json_unchanged(told: Callable[[], list[dict[str, Any]]]) -> None:
    with fresh_mind() as mind:
        mind.take(stores.lines(told()))
        before, document = exported(mind), mind.checkpoint("json")
    with fresh_mind() as mind:
        assert mind.take(document.encode(), "cp.json")["missing"] == []
        after = exported(mind)
    assert [comparable(line) for line in after] == [comparable(line) for line in before]


def comparable(line: dict[str, Any]) -> dict[str, Any]:
    """A command that was told by its words comes back as the line that they make."""
    if line.get("argv"):
        command = use.Command(line.pop("env", {}), line.pop("argv"))
        return line | {"command": command}
    return line | ({"command": use.command(line["command"])} if "command" in line else {})


def test_decimals_come_through_json() -> None:
    with fresh_mind() as mind:
        mind.take(stores.lines(hostile.numbers()))
        document = mind.checkpoint("json")
    with fresh_mind() as mind:
        mind.take(document.encode())
        values = [run["metrics"]["output_throughput"]["value"] for run in exported(mind) if run["type"] == "benchmark"]
    assert {str(value) for value in values} == {str(Decimal(told)) for told in hostile.NUMBERS}
