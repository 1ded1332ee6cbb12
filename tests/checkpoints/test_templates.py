"""Templates of one's own come first; a broken one costs only its own section, and says which line it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.checkpoints.telling import SHIPPED, model, section

from sitrepd.checkpoints.render import render
from sitrepd.checkpoints.templates import Templates
from sitrepd.paths import resource_dir

DIRECTIVE = {"id": "D1", "ids": ["D1"], "kind": "directive", "active": True, "text": "Be exact."}
STEP = {"id": "N1", "ids": ["N1"], "text": "Measure.", "state": "todo"}
MODEL = model(
    section("next_steps", [STEP], order=20, title="Next steps", pinned=True),
    section("goal", [DIRECTIVE], order=30, title="Goal and directives", pinned=True),
)


def with_template(folder: Path, name: str, text: str) -> str:
    (folder / "checkpoint").mkdir(exist_ok=True)
    (folder / "checkpoint" / name).write_text(text)
    return render(MODEL, "md", 9000, Templates(folder))


def test_a_template_of_ones_own_comes_first(tmp_path: Path) -> None:
    text = with_template(
        tmp_path,
        "goal.md.j2",
        "{% macro head() %}## {{ section.title }}, mine{% endmacro %}\n"
        "{% macro item(it) %}* {{ it.id }} = {{ it.text | one_line }}{% endmacro %}",
    )
    assert "## Goal and directives, mine\n* D1 = Be exact.\n" in text
    assert "- N1 (todo): Measure." in text


def test_a_template_without_items_stands_as_a_whole(tmp_path: Path) -> None:
    text = with_template(
        tmp_path, "goal.md.j2", "## All\n{% for it in section.items %}\n- {{ it.text }}\n{% endfor %}\n"
    )
    assert "## All\n- Be exact.\n" in text


def test_a_change_of_a_template_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    templates = Templates(tmp_path)
    assert "- D1: Be exact." in render(MODEL, "md", None, templates)
    (tmp_path / "checkpoint" / "goal.md.j2").write_text("{% macro item(it) %}+ {{ it.text }}{% endmacro %}")
    assert "+ Be exact." in render(MODEL, "md", None, templates)


@pytest.mark.parametrize(
    ("broken", "line", "why"),
    [
        ("{% macro item(it) %}\n{{ it.text\n{% endmacro %}", 3, "expected token"),
        ("{% macro item(it) %}\n\n\n- {{ it.txet }}\n{% endmacro %}", 4, "has no attribute 'txet'"),
        ("{% macro item(it) %}\n{{ 1 / 0 }}{% endmacro %}", 2, "ZeroDivisionError"),
        ("{% macro item(it) %}\n{{ it.text | nonsense }}{% endmacro %}", 2, "nonsense"),
        ("{% from 'absent.j2' import x %}\n{% macro item(it) %}x{% endmacro %}", 1, "absent.j2"),
        ("{% macro item(it) %}\n{{ it.__class__.__mro__ }}{% endmacro %}", 2, "SecurityError"),
        ("{% macro item(it) %}{{ it.clear() }}{% endmacro %}", 1, "SecurityError"),
        ("x\n{{ section.items | first | attr('__init__') }}\n{{ section.nothing }}", 2, "SecurityError"),
        ("x\n\n{{ section.nothing }}", 3, "nothing"),
        ("{% macro head() %}\n{{ section.nope }}{% endmacro %}{% macro item(it) %}x{% endmacro %}", 2, "nope"),
        ("{% macro item() %}x{% endmacro %}", None, "TypeError"),
        ("{% macro item(it) %}{% for n in range(10**9) %}x{% endfor %}{% endmacro %}", 1, "Range too big"),
    ],
)
def test_a_broken_template_says_so_and_loses_no_fact(tmp_path: Path, broken: str, line: int | None, why: str) -> None:
    text = with_template(tmp_path, "goal.md.j2", broken)
    notice = next(one for one in text.split("\n") if "The template failed" in one)
    assert "goal.md.j2" in notice
    assert why in notice
    assert line is None or f"line {line} of" in notice
    assert "## Goal and directives\n- The template failed" in text
    assert "- D1: Be exact." in text
    assert "- N1 (todo): Measure." in text


def test_items_that_no_template_knows_are_told_plainly() -> None:
    rendered = model(section("goal", [{"ids": ["D1"], "odd": "x"}], title="Goal"))
    text = render(rendered, "md", None, SHIPPED)
    assert "- The template failed in line" in text
    assert "- D1: odd=x" in text


def test_a_broken_page_is_replaced_by_ours(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "page.html.j2").write_text("{{ nothing }}")
    page = render(MODEL, "html", None, Templates(tmp_path))
    assert page.startswith("<!doctype html>")
    assert "D1: Be exact." in page


def test_a_section_without_a_template_is_told_plainly() -> None:
    item = {"ids": ["X1"], "kind": "x", "words": "a\nb", "count": 3, "priority": 4}
    assert "## Odd\n- X1: count=3; words=a b\n" in render(model(section("odd", [item])), "md", None, SHIPPED)


def test_each_shipped_template_compiles() -> None:
    names = [path.name for path in (resource_dir("templates") / "checkpoint").glob("*.md.j2")]
    assert len(names) > 15
    for name in names:
        told: dict[str, Any] = section(name.removesuffix(".md.j2"), [], data={"metric": "x"})
        SHIPPED.typeset(told)
