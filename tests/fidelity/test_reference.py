"""The reference session at 9,000 characters: each field of each line but the messages, in the statement of its fact."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fidelity import markdown, use
from tests.fidelity.markdown import Item, Page
from tests.fidelity.stores import fresh_mind

REFERENCE = Path(__file__).parent.parent / "data" / "reference-session.jsonl"
LINES: list[dict[str, Any]] = [json.loads(line) for line in REFERENCE.read_text().splitlines()]
FACTS = [line for line in LINES if line["type"] != "message"]
SECTIONS = {
    "session": "Goal and directives", "directive": "Goal and directives", "host": "Hardware", "model": "Models",
    "reference": "References", "benchmark": "Benchmarks", "artifact": "Artifacts", "launch": "Now", "next_step": "Next steps",
}  # fmt: skip
FINDINGS = {"root_cause": "Root causes and constraints", "observation": "Hypotheses and observations"}
LABELS = {"root_cause": "root cause", "observation": "observation"}
# What a statement is found by.
NAMED_BY = ("goal", "text", "title", "path", "name", "command")


@pytest.fixture(scope="module")
def text() -> str:
    with fresh_mind() as mind:
        mind.take(REFERENCE.read_bytes(), REFERENCE.name)
        return mind.checkpoint("md", 9000)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    assert len(text) <= 9000
    return markdown.read(text)


def statements(page: Page, line: dict[str, Any]) -> list[Item]:
    """Those of a line's fact; a launch has two, since its command stands on its own."""
    section = SECTIONS.get(line["type"]) or FINDINGS[line["kind"]]
    if line["type"] == "launch":
        return [item for item in page.of(section) if item.line.startswith(("L1 ", "Command of L1"))]
    if line["type"] == "session":
        return [item for item in page.of(section) if item.line.startswith("S1 ")]
    name = next(str(line[field]) for field in NAMED_BY if field in line)
    found = [item for item in page.of(section) if name in item.told()]
    return found[:1] if line["type"] != "benchmark" else [item for item in found if f" {name} |" in item.line]


def identity(page: Page, key: str) -> str:
    """The id of the fact that the file calls `key`."""
    line = next(line for line in LINES if line.get("key") == key)
    return statements(page, line)[0].line.lstrip("| ").split(" ", 1)[0].rstrip(":")


def expected(page: Page, line: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """For each field what must stand in the statement; a field that is not known here fails."""
    for name, value in line.items():
        yield from ((name, told) for told in FIELDS[name](page, line, value))


def _verbatim(_page: Page, _line: dict[str, Any], value: Any) -> Iterator[str]:
    yield str(value)


def _nothing(_page: Page, _line: dict[str, Any], _value: Any) -> Iterator[str]:
    return iter(())


def _reference(page: Page, _line: dict[str, Any], value: Any) -> Iterator[str]:
    for key in value if isinstance(value, list) else [value]:
        yield identity(page, key)


def _gpus(_page: Page, _line: dict[str, Any], value: list[dict[str, Any]]) -> Iterator[str]:
    names = {gpu["name"] for gpu in value}
    assert [gpu["index"] for gpu in value] == [*range(len(value))]
    assert len(names) == 1
    yield f"{len(value)} × {names.pop()} (GPU 0-{len(value) - 1})"


def _settings(_page: Page, _line: dict[str, Any], value: dict[str, Any]) -> Iterator[str]:
    for name, setting in value.items():
        yield f"{name}={'null' if setting is None else setting}"


def _metrics(_page: Page, _line: dict[str, Any], value: dict[str, dict[str, Any]]) -> Iterator[str]:
    for metric in value.values():
        assert metric["better"] == "higher"
        yield f"{metric['value']} {metric['unit']}"


def _kind(_page: Page, _line: dict[str, Any], value: str) -> Iterator[str]:
    yield LABELS[value]


def _baseline(_page: Page, _line: dict[str, Any], value: bool) -> Iterator[str]:
    assert value is True
    yield "| baseline,"


FIELDS: dict[str, Callable[[Page, dict[str, Any], Any], Iterator[str]]] = {
    **dict.fromkeys(("type", "key"), _nothing),
    **dict.fromkeys(("host", "model", "evidence", "after"), _reference),
    **dict.fromkeys(
        ("name", "goal", "interconnect", "path", "weight_bytes", "parameters", "quantization", "note", "text", "title",
         "detail", "status", "source", "role", "engine", "state", "command"), _verbatim),
    "order": lambda _page, _line, value: iter([f"order {value}"]),
    "gpus": _gpus, "config": _settings, "metrics": _metrics, "kind": _kind, "baseline": _baseline,
}  # fmt: skip


@pytest.mark.parametrize("line", FACTS, ids=[f"{line['type']}-{place}" for place, line in enumerate(FACTS)])
def test_each_field_stands_in_the_statement_of_its_fact(page: Page, line: dict[str, Any]) -> None:
    told = "\n".join(item.told() for item in statements(page, line))
    assert told
    assert [(name, value) for name, value in expected(page, line) if value not in told] == []


def test_best_and_differences_are_computed_from_what_was_told(page: Page) -> None:
    best = next(page.of("Best configuration")).line
    assert best.startswith("B3 EAGLE-3, 2 steps: 94.0 tok/s output_throughput, +5.9 % to the baseline B1 (88.8 tok/s)")
    rows = {
        item.line.split(" | ")[0][2:]: item.line.split(" | ")[2].strip()
        for item in page.of("Benchmarks")
        if item.line[0] == "|"
    }
    assert rows["B2 EAGLE-3, 1 step"] == "-4.2 %"
    assert rows["B3 EAGLE-3, 2 steps"] == "+5.9 %"
    assert rows["B4 EAGLE-3, 5 steps"] == "-2.4 %"


def test_what_is_not_known_is_not_filled_in(text: str) -> None:
    """The command of the 2-step run was never told, and the one of another run is not it."""
    assert use.best_command(text) is None
    assert "The command of this run was not recorded." in text
    assert "whether it runs now is not known" in text


def test_the_next_step_is_the_first_that_is_open(text: str) -> None:
    steps = [line for line in LINES if line["type"] == "next_step"]
    assert use.next_step(text) == min(steps, key=lambda line: line["order"])["text"]
