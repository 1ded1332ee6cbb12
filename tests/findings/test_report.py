"""What findings say in a checkpoint."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sitrepd.findings.report import sections


def row(number: int, kind: str, status: str = "confirmed", **more: Any) -> Any:
    empty = {"detail": None, "reason": None, "evidence": [], "supersedes_id": None, "at": None, "provenance": "told:x"}
    return SimpleNamespace(id=number, kind=kind, status=status, title=f"title {number}", **empty | more)


def test_what_holds_comes_before_what_is_open_and_that_before_what_is_over() -> None:
    kinds = ("superseded", "refuted", "open", "confirmed", "confirmed")
    found = [row(number, "root_cause", status) for number, status in enumerate(kinds, 1)]
    causes = sections(found)[0]
    assert [item["id"] for item in causes.items] == ["F4", "F5", "F3", "F2", "F1"]
    assert [item.get("pinned", causes.pinned) for item in causes.items] == [True, True, False, False, False]


def test_a_replaced_finding_is_superseded_whatever_it_says_itself() -> None:
    found = [row(2, "decision", supersedes_id=1), row(1, "rejected")]
    old = sections(found)[1].items[-1]
    assert (old["id"], old["status"], old["superseded_by"], old["pinned"]) == ("F1", "superseded", "F2", False)


def test_each_kind_has_its_section() -> None:
    kinds = ("root_cause", "constraint", "decision", "rejected", "hypothesis", "observation")
    found = [row(number, kind) for number, kind in enumerate(kinds, 1)]
    told = {one.name: [item["kind"] for item in one.items] for one in sections(found)}
    assert told == {
        "root_causes": ["root_cause", "constraint"],
        "decisions": ["decision", "rejected"],
        "open_points": ["hypothesis", "observation"],
    }


def test_rejected_options_are_kept_longer_than_decisions() -> None:
    rejected, decision = sections([row(1, "rejected"), row(2, "decision")])[1].items
    assert rejected.get("priority", 6) < decision["priority"]


def test_a_finding_that_was_told_before_is_told_as_it_is_now() -> None:
    first = sections([row(1, "root_cause", "open", evidence=["L1"])])[0].items[0]
    first["title"] = "put in by who had it before"
    again = sections([row(1, "root_cause", "open", evidence=["L1"])])[0].items[0]
    assert again == first | {"title": "title 1"}
    for changed in ({"evidence": ["L1", "L2"]}, {"detail": "why"}, {"supersedes_id": 4}, {"provenance": "told:y"}):
        assert sections([row(1, "root_cause", "open", **{"evidence": ["L1"]} | changed)])[0].items[0] != again
    assert sections([row(1, "root_cause", "confirmed", evidence=["L1"])])[0].items[0]["status"] == "confirmed"
    replaced = sections([row(1, "root_cause", "open", evidence=["L1"])], {1: "F2"})[0].items[0]
    assert (replaced["status"], replaced["superseded_by"]) == ("superseded", "F2")
