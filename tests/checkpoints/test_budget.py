"""A budget is never passed, cuts nothing, leaves out the least, and says what it left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checkpoints.telling import SHIPPED, model, section

from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.quote import clean
from sitrepd.checkpoints.render import FORMATS, render, to_text
from sitrepd.errors import InvalidFact

TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=300)
ALPHABET = "ab `#|-\n\\*_<>[]()&;$ \tß漢🚀"
ROUGH = st.text(st.sampled_from(ALPHABET), max_size=400)


@st.composite
def findings(draw: st.DrawFn) -> dict[str, Any]:
    number = draw(st.integers(1, 10**6))
    item = {"id": f"F{number}", "ids": [f"F{number}"], "kind": "rejected", "label": "rejected option", "status": "open"}
    return clean(item | {"title": draw(TEXT | ROUGH), "reason": draw(ROUGH)} | draw(weights()))


@st.composite
def directives(draw: st.DrawFn) -> dict[str, Any]:
    number = draw(st.integers(1, 10**6))
    item = {"kind": "directive", "id": f"D{number}", "ids": [f"D{number}"], "active": True}
    return clean(item | {"text": draw(TEXT | ROUGH)} | draw(weights()))


def weights() -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={"pinned": st.booleans(), "priority": st.integers(1, 90)})


@st.composite
def models(draw: st.DrawFn) -> dict[str, Any]:
    return model(
        section("goal", draw(st.lists(directives(), max_size=12)), order=30, pinned=True, priority=2),
        section("decisions", draw(st.lists(findings(), max_size=12)), order=50, pinned=draw(st.booleans())),
        section("open_points", draw(st.lists(findings(), max_size=12)), order=60, data={"earlier": draw(st.none() | st.integers(1, 9))}),
        name=draw(TEXT.filter(bool)),
    )  # fmt: skip


@given(models(), st.integers(1000, 6000), st.sampled_from(["md", "txt", "json"]))
@settings(deadline=None, max_examples=150)
def test_it_is_never_passed_and_gives_the_same_bytes_again(rendered: dict[str, Any], budget: int, form: str) -> None:
    text = render(rendered, form, budget, SHIPPED)
    assert len(text) <= budget
    assert render(rendered, form, budget, SHIPPED) == text


@given(models(), st.integers(1000, 6000))
@settings(deadline=None, max_examples=150)
def test_items_are_whole_or_absent_and_those_absent_are_told(rendered: dict[str, Any], budget: int) -> None:
    text = render(rendered, "md", budget, SHIPPED)
    first, _, body = text.partition("\n")
    assert first.startswith("Sitrep C7 · S1 ")
    assert first.endswith("name C7 in your first answer.")
    for part in (SHIPPED.typeset(one) for one in rendered["sections"]):
        if part.head in body.split("\n"):
            body = body.replace(part.head + "\n", "", 1)
        for piece in sorted(part.pieces, key=lambda piece: -len(piece.text)):
            body = body.replace(piece.text, "", 1)
    rest = [line for line in body.split("\n") if line]
    assert all(
        line.startswith(("## Left out", "Left out", "- Goal:", "- Decisions:", "- Open points:")) for line in rest
    )
    shown = len(render(rendered, "md", None, SHIPPED)) == len(text)
    assert shown or "Left out" in body


@given(models(), st.integers(1000, 4000))
@settings(deadline=None, max_examples=50)
def test_json_holds_whole_items_and_what_is_left_out(rendered: dict[str, Any], budget: int) -> None:
    told = json.loads(render(rendered, "json", budget, SHIPPED))
    for got in told["sections"]:
        full = next(one for one in rendered["sections"] if one["name"] == got["name"])
        assert all(item in full["items"] for item in got["items"])
    count = sum(len(one["items"]) for one in told["sections"])
    whole = count == sum(len(one["items"]) for one in rendered["sections"])
    assert bool(told["left_out"]) == (not whole or any(one["data"].get("earlier") for one in rendered["sections"]))


def finding(number: int, title: str, **more: Any) -> dict[str, Any]:
    item = {
        "id": f"F{number}",
        "ids": [f"F{number}"],
        "kind": "rejected",
        "label": "rejected option",
        "status": "confirmed",
    }
    return item | {"title": title, "reason": "because"} | more


def test_the_pinned_stay_and_the_rest_goes_by_priority() -> None:
    rendered = model(
        section("open_points", [finding(n, "open " * 30) for n in range(1, 9)], order=10, priority=5),
        section("decisions", [finding(n, "pinned " * 10) for n in range(20, 26)], order=50, pinned=True, priority=99),
    )
    text = render(rendered, "md", 1500, SHIPPED)
    assert all(f"- F{number} rejected" in text for number in range(20, 26))
    assert "- F1 rejected" in text
    assert "- F8 rejected" not in text
    assert "F8" in text.split("Left out")[1]


def test_an_item_too_long_for_the_budget_does_not_keep_others_out() -> None:
    rendered = model(section("decisions", [finding(1, "long " * 900), finding(2, "short")], pinned=True))
    text = render(rendered, "md", 1000, SHIPPED)
    assert "- F2 rejected option (confirmed): short" in text
    assert "long" not in text
    assert "F1" in text.split("Left out")[1]


def test_what_was_never_collected_is_told_at_any_budget() -> None:
    rendered = model(section("decisions", [finding(1, "a")], data={"earlier": 250}, more="sitrep finding list"))
    for budget in (None, 1000):
        assert "250 earlier" in render(rendered, "md", budget, SHIPPED)
        assert "`sitrep finding list`" in render(rendered, "md", budget, SHIPPED)


def test_plain_text_is_never_longer_than_its_markdown() -> None:
    rendered = model(section("decisions", [finding(1, "```\nx\n```"), finding(2, "a")]))
    markdown = render(rendered, "md", None, SHIPPED)
    text = to_text(markdown)
    assert len(text) <= len(markdown)
    assert "```\nx\n```" in text
    assert "````" not in text
    assert "DECISIONS" in text


@pytest.mark.parametrize(
    ("told", "characters"),
    [
        ("9000", 9000),
        ("2000t", 8000),
        ("250T", 1000),
        (" brief ", 2000),
        ("standard", 9000),
        ("full", None),
        ("FULL", None),
    ],
)
def test_budgets_that_are_read(told: str, characters: int | None) -> None:
    assert parse_budget(told) == characters


@pytest.mark.parametrize("told", ["", "999", "249t", "-5", "1e4", "9000x", "many", "9 000", "t", "99999999999999"])
def test_budgets_that_are_refused(told: str) -> None:
    with pytest.raises(InvalidFact, match="budget="):
        parse_budget(told)


def test_every_format_has_a_media_type() -> None:
    assert set(FORMATS) == {"md", "json", "html", "txt"}
