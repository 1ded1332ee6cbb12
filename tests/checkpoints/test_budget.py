"""A budget is never passed, cuts nothing, leaves out the least, and says what it left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.checkpoints.telling import SHIPPED, model, section

from sitrepd.checkpoints.budget import parse_budget
from sitrepd.checkpoints.quote import CUT, clean, clean_text, clip
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


@pytest.mark.slow
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
        forms = [form for piece in part.pieces for form in (piece.text, *piece.shorter())]
        for form in sorted(forms, key=len, reverse=True):
            body = body.replace(form, "", 1)
    rest = [line for line in body.split("\n") if line]
    assert all(
        line.startswith(("## Left out", "Left out", "- Goal:", "- Decisions:", "- Open points:")) for line in rest
    )
    shown = len(render(rendered, "md", None, SHIPPED)) == len(text)
    assert shown or "eft out" in body or "hortened" in body


@given(models(), st.integers(1000, 4000))
@settings(deadline=None, max_examples=50)
def test_json_holds_items_whole_or_called_shortened_and_what_is_left_out(rendered: dict[str, Any], budget: int) -> None:
    told = json.loads(render(rendered, "json", budget, SHIPPED))
    items = [item for one in told["sections"] for item in one["items"]]
    cut = [item for item in items if item.get("shortened")]
    for got in told["sections"]:
        full = next(one for one in rendered["sections"] if one["name"] == got["name"])
        assert all(item in full["items"] for item in got["items"] if item not in cut)
        assert {item["id"] for item in got["items"]} <= {item["id"] for item in full["items"]}
    whole = not cut and len(items) == sum(len(one["items"]) for one in rendered["sections"])
    assert bool(told["left_out"]) == (not whole or any(one["data"].get("earlier") for one in rendered["sections"]))


def test_json_says_of_what_is_pinned_that_it_is_shortened() -> None:
    pinned = finding(1, "0" * 900, status="open", pinned=True)
    rest = [finding(2, "", reason="", status="open") for _ in range(9)]
    told = json.loads(
        render(model(section("open_points", [*rest, pinned], order=60, priority=10)), "json", 1000, SHIPPED)
    )
    shown = next(item for item in told["sections"][0]["items"] if item["id"] == "F1")
    assert (shown["title"], shown["shortened"]) == (clip("0" * 900, 240), True)
    assert told["left_out"]


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
    for pinned, form in ((True, "- F1 rejected: long long"), (False, None)):
        rendered = model(section("decisions", [finding(1, "long " * 900), finding(2, "short")], pinned=pinned))
        text = render(rendered, "md", 1000, SHIPPED)
        assert "- F2 rejected: short" in text
        assert (form or "long") in text if pinned else "long" not in text
        assert "F1" in text.rsplit("\n\n", 1)[1]


def lined(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("- ")]


def crowded(words: int = 12) -> dict[str, Any]:
    """Eight of each: pinned facts that need more than any of the budgets below."""
    prose = " ".join(f"word{number}" for number in range(words))
    directive = {"kind": "directive", "active": True, "text": f"Wish: {prose}."}
    cause = {"kind": "root_cause", "label": "root cause"}
    command = {
        "kind": "command",
        "ids": ["L1"],
        "launch": "L1",
        "of": ["B1"],
        "command": "serve " + "--flag value " * 60,
    }
    return model(
        section("goal", [{**directive, "id": f"D{n}", "ids": [f"D{n}"]} for n in range(1, 9)], order=30, priority=2, pinned=True),
        section("root_causes", [finding(n, f"cause {n}", detail=prose, **cause) for n in range(1, 9)], order=40, priority=5, pinned=True),
        section("decisions", [finding(n, f"option {n}", detail=prose) | {"reason": prose} for n in range(11, 19)], order=50, priority=6, pinned=True),
        section("best", [command | {"what": "command of L1"}], order=70, priority=4, pinned=True),
        section("artifacts", [{"id": f"A{n}", "ids": [f"A{n}"], "path": f"/p/{n}"} for n in range(1, 9)], order=150, priority=40),
    )  # fmt: skip


def test_what_is_pinned_is_shortened_before_it_is_dropped_and_the_weightiest_last() -> None:
    text = render(crowded(20), "md", 4600, SHIPPED)
    ids = [f"D{n}" for n in range(1, 9)] + [f"F{n}" for n in (*range(1, 9), *range(11, 19))]
    lines = {line.split()[1].rstrip(":"): line for line in lined(text)}
    assert set(ids) <= set(lines)
    assert all(lines[f"D{n}"].endswith("word19.") for n in range(1, 9))
    assert "serve --flag value" in text
    assert not any(line.startswith("- A") and "/p/" in line for line in lined(text))
    cut = [one for one in ids if CUT in lines[one] or "word" not in lines[one]]
    assert cut == sorted(cut, key=ids.index)
    assert cut[-1] == "F18"
    assert "hortened" in text
    assert "F18" in text.rsplit("\n\n", 1)[1] or "shortened" in text.rsplit("\n\n", 1)[1]


def test_nothing_is_cut_inside_a_word_or_a_command() -> None:
    for budget in range(1000, 7000, 97):
        text = render(crowded(20), "md", budget, SHIPPED)
        words = set(text.replace(":", " ").replace(".", " ").split())
        assert {word for word in words if word.startswith("wor") and word != "work"} <= {f"word{n}" for n in range(20)}
        assert text.count("--flag value") in (0, 60)
        assert text.count("```") in (0, 2)
        assert ("Command of L1" in text) or budget < 1300


def test_more_room_never_takes_a_pinned_fact_away() -> None:
    seen: set[str] = set()
    for budget in range(1000, 8000, 250):
        shown = {line.split()[1].rstrip(":") for line in lined(render(crowded(16), "md", budget, SHIPPED))}
        assert {one for one in seen if one[0] in "DF"} <= shown | {"Decisions", "F1,"}
        seen = {one for one in shown if one[0] in "DF" and one[1:].isdigit()}


def test_json_says_what_is_shortened() -> None:
    told = json.loads(render(crowded(40), "json", 6000, SHIPPED))
    items = {item["ids"][0]: item for one in told["sections"] for item in one["items"]}
    shortened = [item for item in items.values() if item.get("shortened")]
    assert shortened
    assert all(item["ids"] for item in shortened)
    assert told["left_out"]
    assert all("shortened" not in item for one in crowded()["sections"] for item in one["items"])


@given(ROUGH, st.integers(20, 200))
def test_a_clipped_text_is_a_beginning_with_a_mark(text: str, most: int) -> None:
    plain = clean_text(text)
    short = clip(text, most)
    assert len(short) <= max(most, len(CUT))
    if short != plain:
        assert short.endswith(CUT)
        head = short[: -len(CUT)].rstrip()
        assert plain.startswith(head) or head in plain
        assert head.count("`") % 2 == 0 or "\n" in plain


def test_where_a_text_is_clipped() -> None:
    assert clip("One sentence. " + "more " * 50, 30) == f"One sentence. more more {CUT}"
    assert clip("One whole sentence. Then more words come", 34) == f"One whole sentence. {CUT}"
    assert clip("Run it with --tp 8 and then wait for a while", 20) == f"Run it {CUT}"
    assert clip("Use `serve --port 1 --tp 8` always, or else", 30) == f"Use {CUT}"
    assert clip("x" * 100, 30) == CUT
    assert clip("one\ntwo\nthree", 9) == f"one\ntwo\n{CUT}"


def test_what_was_never_collected_is_told_at_any_budget() -> None:
    rendered = model(section("decisions", [finding(1, "a")], data={"earlier": 250}, more="sitrep finding list"))
    for budget in (None, 1000):
        assert "250 earlier" in render(rendered, "md", budget, SHIPPED)
        assert "`sitrep finding list`" in render(rendered, "md", budget, SHIPPED)


def test_plain_text_is_never_longer_than_its_markdown() -> None:
    row = {"kind": "row", "ids": ["B1"], "label": "base", "value": "88.80", "words": []}
    table = section("benchmarks", [row], data={"metric": "kl"})
    rendered = model(section("decisions", [finding(1, "```\nx\n```"), finding(2, "a")]), table)
    markdown = render(rendered, "md", None, SHIPPED)
    text = to_text(markdown)
    assert len(text) <= len(markdown)
    assert "```\nx\n```" in text
    assert "````" not in text
    assert "DECISIONS" in text
    assert text.endswith("BENCHMARKS\nConfiguration | kl | Difference | Notes\nB1 base | 88.80 |  | \n")


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
