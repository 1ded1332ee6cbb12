"""The pages of docs/ say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import reference

from sitrepd.cli import root
from sitrepd.settings import Settings

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "api.md", "checkpoint.schema.json"])
def test_the_page_is_what_the_code_gives(pages: dict[str, str], name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == pages[name], "run scripts/docs"


def test_every_verb_is_on_the_page(pages: dict[str, str]) -> None:
    for name in root.VERBS:
        command = root.load(name)
        assert command.help, f"sitrep {name} has no help"
        for path in [name, *(f"{name} {sub}" for sub in getattr(command, "commands", ()))]:
            assert re.search(rf"^##+ sitrep {path}$", pages["cli.md"], re.MULTILINE), f"sitrep {path} is missing"


def test_every_option_says_what_it_does() -> None:
    silent = [
        f"sitrep {name} {param.name}"
        for name in root.VERBS
        for command in (root.load(name), *getattr(root.load(name), "commands", {}).values())
        for param in command.params
        if not param.hidden and not param.help
    ]
    assert silent == []


def test_every_setting_is_on_the_page(pages: dict[str, str]) -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, f"setting {name} has no description"
        assert f"| `{name}` | `SITREP_{name.upper()}` |" in pages["settings.md"]


def test_every_variable_that_the_code_reads_is_on_the_page(pages: dict[str, str]) -> None:
    sources = (ROOT / "daemon").rglob("*.py")
    read = {name for path in sources for name in re.findall(r"environ\S*[\[(]\"(SITREP_\w+)\"", path.read_text())}
    assert "SITREP_SESSION" in read
    assert [name for name in sorted(read) if f"`{name}`" not in pages["settings.md"]] == []


def test_every_route_has_a_name_and_says_what_it_does() -> None:
    operations = [
        (f"{method.upper()} {path}", one)
        for path, methods in reference.openapi()["paths"].items()
        for method, one in methods.items()
    ]
    names = [one["operationId"] for _, one in operations]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []
    assert [route for route, one in operations if not (one.get("description") or one.get("summary"))] == []
