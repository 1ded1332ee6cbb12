"""Texts that are kept are those that would be made again, are few, and are gone when a template changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sitrepd.checkpoints.budget import Part
from sitrepd.checkpoints.kept_texts import KeptTexts

ITEM = "{% macro item(it) %}{{ it.text }}{{ section.terse }}{% endmacro %}"


def kept(folder: Path, **templates: str) -> KeptTexts:
    for name, text in {"points": ITEM, **templates}.items():
        (folder / f"{name}.md.j2").write_text(text)
    made = KeptTexts(folder, ".md.j2")
    made.look()
    return made


def section(name: str = "points", terse: bool = False, **more: Any) -> dict[str, Any]:
    return {"name": name, "terse": terse, "items": [], "data": {}, **more}


def made(texts: KeptTexts, where: dict[str, Any], item: dict[str, Any]) -> bool:
    """Whether the text of the item is made, and not known."""
    asked: list[int] = []
    texts.text(where, item, lambda: str(asked.append(1)))
    return bool(asked)


def test_an_item_is_known_by_what_is_said_of_it(tmp_path: Path) -> None:
    texts = kept(tmp_path, others=ITEM)
    assert made(texts, section(), {"text": "a", "order": 1})
    assert not made(texts, section(data={"earlier": 4}), {"text": "a", "order": 2, "priority": 7, "pinned": True})
    for where, item in (
        (section(), {"text": "b"}),
        (section(), {"text": "a", "ids": []}),
        (section(terse=True), {"text": "a"}),
        (section("others"), {"text": "a"}),
    ):
        assert made(texts, where, item)


class _Word(str):
    """Text of a kind of its own, as an enum's member is."""

    __slots__ = ()


def test_an_item_is_known_by_its_value_however_that_is_kept(tmp_path: Path) -> None:
    texts = kept(tmp_path)
    shared = ["L1"]
    assert made(texts, section(), {"text": "ab", "ids": shared, "launches": shared})
    assert not made(texts, section(), {"text": "".join(("a", "b")), "ids": ["L1"], "launches": ["L1"]})
    assert made(texts, section(), {"text": 1})
    assert made(texts, section(), {"text": True})
    assert made(texts, section(), {"text": _Word("word")})
    assert not made(texts, section(), {"text": _Word("word")})


@pytest.mark.parametrize(
    "template",
    [
        "{% macro item(it) %}{{ section.data.unit }}{% endmacro %}",
        "{% macro item(it) %}{{ sections.now.title }}{% endmacro %}",
        "{% macro item(it) %}{{ checkpoint.at }}{% endmacro %}",
        "{% macro item(it) %}{{ it.order }}{% endmacro %}",
        "{% macro item(it) %}{{ it['pinned'] }}{% endmacro %}",
        "{{ section.items | length }}",
    ],
)
def test_an_item_that_follows_from_more_is_made_every_time(tmp_path: Path, template: str) -> None:
    texts = kept(tmp_path, points=template)
    assert made(texts, section(), {"text": "a"})
    assert made(texts, section(), {"text": "a"})


def test_what_all_templates_share_counts_too(tmp_path: Path) -> None:
    texts = kept(tmp_path, _shared="{% macro head(it) %}{{ it.priority }}{% endmacro %}")
    assert made(texts, section(), {"text": "a"})
    assert made(texts, section(), {"text": "a"})


def test_a_section_is_known_by_all_that_it_holds(tmp_path: Path) -> None:
    texts = kept(tmp_path, wide=ITEM + "{{ sections }}")
    parts = [Part("points", "", str(number), ()) for number in range(5)]
    assert texts.part(section(), lambda: parts[0]) is texts.part(section(), lambda: parts[1]) is parts[0]
    assert texts.part(section(data={"earlier": 4}), lambda: parts[2]) is parts[2]
    for part in parts[3:]:
        assert texts.part(section("wide"), lambda part=part: part) is part  # type: ignore[misc]


@pytest.mark.parametrize("changed", ["points.md.j2", "_shared.md.j2"])
def test_a_change_of_a_template_makes_all_forgotten(tmp_path: Path, changed: str) -> None:
    texts = kept(tmp_path)
    assert made(texts, section(), {"text": "a"})
    texts.part(section(), lambda: Part("points", "", "old", ()))
    (tmp_path / changed).write_text("{% macro item(it) %}{{ it.text }}!{% endmacro %}")
    os.utime(tmp_path / changed, ns=(1, 1))
    texts.look()
    assert made(texts, section(), {"text": "a"})
    assert texts.part(section(), lambda: Part("points", "", "new", ())).head == "new"


def test_neither_many_nor_long_texts_are_kept(tmp_path: Path) -> None:
    texts = kept(tmp_path)
    for number in range(2100):
        texts.text(section(), {"text": number}, lambda number=number: "x" * number)  # type: ignore[misc]
        texts.part(section(number=number), lambda: Part("points", "", "", ()))
    assert (len(texts._texts), len(texts._parts)) == (2000, 40)
    assert max(map(len, texts._texts.values())) == 2000
    assert made(texts, section(), {"text": 0})
    assert made(texts, section(), {"text": 2050})
    assert not made(texts, section(), {"text": 1000})
