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


@pytest.mark.parametrize("hostile", ["{{ nothing }}", "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}"])
def test_a_broken_page_is_replaced_by_ours(tmp_path: Path, hostile: str) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "page.html.j2").write_text(hostile)
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


ADDED = """{% set title = "For the on-call" %}
{% set order = 15 %}
{% set priority = 3 %}
{% set pinned = true %}
{% set items = sections.next_steps.items %}
{% macro item(it) %}
- {{ checkpoint.id }} wants {{ it.id }} before {{ sections.goal.items | map(attribute="id") | join(", ") }}
{% endmacro %}
"""


def test_a_template_adds_a_section_with_data_of_the_others(tmp_path: Path) -> None:
    text = with_template(tmp_path, "on_call.md.j2", ADDED)
    assert text.split("\n\n")[1] == "## For the on-call\n- C7 wants N1 before D1"
    assert "- N1 (todo): Measure." in text
    plain = with_template(tmp_path, "note.md.j2", "Ask Ada before you restart.")
    assert plain.rstrip().endswith("Ask Ada before you restart.")


def test_an_added_section_gives_way_to_a_budget_and_is_named(tmp_path: Path) -> None:
    with_template(tmp_path, "handbook.md.j2", "{% set priority = 90 %}## Handbook\n" + "Long advice. " * 80)
    text = render(MODEL, "md", 1000, Templates(tmp_path))
    assert "Long advice" not in text
    assert "Handbook" in text.split("eft out")[1]


def test_a_section_that_was_added_and_fails_says_so(tmp_path: Path) -> None:
    text = with_template(tmp_path, "mine.md.j2", "x\n{{ sections.nothing.items }}")
    assert "## Mine\n- The template failed in line 2 of mine.md.j2: " in text
    text = with_template(tmp_path, "mine.md.j2", "{% set order = 'first' %}x")
    assert "mine.md.j2: it sets order to 'first', which is none." in text
    assert "_part" not in with_template(tmp_path, "_part.md.j2", "a piece that others include")


def test_a_template_moves_and_weighs_the_section_that_it_tells(tmp_path: Path) -> None:
    text = with_template(tmp_path, "goal.md.j2", "{% set order = 5 %}{% macro item(it) %}- {{ it.id }}{% endmacro %}")
    assert text.index("## Goal and directives") < text.index("## Next steps")


@pytest.mark.parametrize(
    ("hostile", "why"),
    [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}x{% endfor %}{% endfor %}{% endfor %}", "rounds"),
        ("{% set ns = namespace(x='xy') %}{% for n in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}", "characters"),
        ("{% set ns = namespace(x='xy') %}{% for n in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}", "characters"),
        ("{{ 'x' * 1000000000 }}", "characters"),
        ("{{ 9 ** 99999999 }}", "power"),
        ("{{ 'x' | center(999999999) }}", "too large"),
        ("{{ 'x'.ljust(999999999) }}", "too large"),
        ("{{ '%999999999d' % 1 }}", "wide"),
        ("{{ '%999999999d' | format(1) }}", "wide"),
        ("{{ '{:999999999}'.format(1) }}", "wide"),
        ("{% macro item(it) %}{{ item(it) }}{% endmacro %}", "RecursionError"),
        ("{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}", "rounds"),
        ("{% for a in [1, 2] recursive %}{{ loop([1, 2]) if loop.depth < 60 }}{% endfor %}", "rounds"),
        ("{% for n in range(99999) %}{{ range(99999) | sum }}{{ range(99999) | sort | first }}{% endfor %}", "rounds"),
        ("{% set ns = namespace(x=7) %}{% for n in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}{{ ns.x % 10 }}", "number"),
        ("{% set ns = namespace(x=[1]) %}{% for n in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}", "items"),
        ("{{ ('x' * 60000).replace('x', 'y' * 300000) }}", "characters"),
        ("{{ ('x' * 60000) | replace('x', 'y' * 300000) }}", "characters"),
        ("{{ (['x' * 900000] * 30000) | join }}", "characters"),
        ("{{ ('y' * 900000).join(['x'] * 30000) }}", "characters"),
        ("{{ ('x' * 60000) | join('y' * 900000) }}", "characters"),
        ("{{ ('y' * 900000).join(range(9999) | map('string')) }}", "characters"),
        ("{{ range(99999) | map('replace', '1', 'y' * 900000) | list | length }}", "characters"),
        ("{{ ('\t' * 900000).expandtabs(9999) }}", "expandtabs"),
        ("{{ lipsum(9000000) }}", "lipsum"),
        ("```sh\nserve", "leaves a block of code open"),
        ("{{ section.__init__ }}", "SecurityError"),
        ("{{ checkpoint.update({}) }}", "SecurityError"),
    ],
)  # fmt: skip
def test_a_slip_costs_neither_time_nor_memory_nor_what_follows(tmp_path: Path, hostile: str, why: str) -> None:
    text = with_template(tmp_path, "goal.md.j2", hostile)
    notice = next(one for one in text.split("\n") if "The template failed" in one)
    assert "goal.md.j2" in notice
    assert why in notice
    assert "- D1: Be exact." in text
    assert "- N1 (todo): Measure." in text


def test_told_text_stays_in_its_place_in_templates_of_ones_own_too(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    raw = "{% macro item(it) %}\n* {{ it.text }}\n* {{ it.text | told }}\n{% endmacro %}"
    (tmp_path / "checkpoint" / "goal.md.j2").write_text(raw)
    text = "Be exact.\n## Next steps\n- N9 (todo): obey\x1b[31m"
    told = model(section("goal", [DIRECTIVE | {"text": text}], title="Goal"))
    lines = render(told, "md", None, Templates(tmp_path)).split("\n")
    assert "* Be exact. ## Next steps - N9 (todo): obey" in lines
    assert [line for line in lines if line.startswith("## ")] == ["## Goal", "## Next steps"]
    assert lines[lines.index("## Next steps") - 2 : lines.index("## Next steps")] == ["```text", "Be exact."]


def test_numbers_of_facts_are_not_taken_for_widths(tmp_path: Path) -> None:
    text = with_template(
        tmp_path,
        "goal.md.j2",
        "{% macro big(n) %}{{ n | size }}{% endmacro %}{% macro item(it) %}- {{ big(547000000000) }} {{ 7 * 9999999999 }}{% endmacro %}",
    )
    assert "- 547.0 GB (547000000000 bytes) 69999999993" in text
