"""The guides of docs/ and the pages at the top name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sitrepd.facts import Noun
from sitrepd.paths import resource_dir
from sitrepd.slices import load_registry

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = [link for link in _LINK.findall(page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("noun", load_registry().by_line.values(), ids=lambda noun: noun.line_type)
def test_session_file_names_every_line_and_field(noun: Noun) -> None:
    text = (ROOT / "docs" / "session-file.md").read_text()
    row = re.search(rf"^\| `{noun.line_type}` \| (.*) \|$", text, re.MULTILINE)
    assert row, f"{noun.line_type} has no row"
    assert [name for name in noun.fields if f"`{name}`" not in row[1]] == []


def test_every_section_is_told_of() -> None:
    text = (ROOT / "docs" / "checkpoints.md").read_text().lower()
    names = {
        path.name.removesuffix(".md.j2") for path in (resource_dir("templates") / "checkpoint").glob("[a-z]*.md.j2")
    }
    titles = {
        "goal": "goal and directives", "root_causes": "root causes and constraints", "launches": "launches before",
        "decisions": "decisions and rejected options", "open_points": "hypotheses and observations",
        "best": "best configuration", "changes": "changed since",
    }  # fmt: skip
    words = [titles.get(name, name.replace("_", " ")) for name in names - {"section"}]
    assert [word for word in words if f"| {word}" not in text] == []


def test_example_of_the_session_file_is_one() -> None:
    from sitrepd import portable

    text = (ROOT / "docs" / "session-file.md").read_text()
    example = re.search(r"```json\n(.*?)```", text, re.DOTALL)
    assert example
    file = portable.parse(example[1].encode(), load_registry(), "example")
    assert len(file.lines) == 7
