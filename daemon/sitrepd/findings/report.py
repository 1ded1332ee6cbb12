"""What findings say in a checkpoint: causes and constraints, decisions and rejected options, open points."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sitrepd import reporting as r
from sitrepd.sections import Report, Section

_COLUMNS = (
    "id", "kind", "title", "detail", "reason", "evidence", "status", "supersedes_id", "at", "provenance",
)  # fmt: skip
# Section, title, place, priority, pinned, and the kinds that stand in it.
_SECTIONS = (
    ("root_causes", "Root causes and constraints", 40, 5, True, ("root_cause", "constraint")),
    ("decisions", "Decisions and rejected options", 50, 6, True, ("rejected", "decision")),
    ("open_points", "Hypotheses and observations", 60, 25, False, ("hypothesis", "observation")),
)
_SECTION_OF = {kind: name for name, *_, kinds in _SECTIONS for kind in kinds}
_LABELS = {"root_cause": "root cause", "rejected": "rejected option"}
_OVER = ("refuted", "superseded")
_LIST = "sitrep finding list"
_MOST = 100
_KEPT = 2 * len(_SECTIONS) * _MOST
_ORDER = {"confirmed": 0, "open": 1, "refuted": 2}


def report(report: Report) -> list[Section]:
    """Sections `root_causes`, `decisions` and `open_points`; of very many, what weighs most is read whole."""
    every = r.rows(report, "finding", ("id", "kind", "status", "supersedes_id"))
    replaced = _replaced(every)
    heaviest_first = _by_weight(every, replaced)
    chosen = [number for numbers in heaviest_first.values() for number in numbers[:_MOST]]
    only = () if len(chosen) == len(every) else (r.among(r.table_of(report, "finding").id, chosen),)
    found = sections(r.rows(report, "finding", _COLUMNS, *only), replaced)
    for section in found:
        section.data = r.present(earlier=len(heaviest_first[section.name][_MOST:]) or None)
    return found


def _by_weight(newest_first: Iterable[Any], replaced: Container[int]) -> dict[str, list[int]]:
    """Numbers by section: of what holds before those of what is over, newer before older."""
    found: dict[str, dict[int, list[int]]] = {name: {0: [], 1: [], 2: [], 3: []} for name, *_ in _SECTIONS}
    for number, kind, status, _ in newest_first:
        order = 3 if number in replaced else _ORDER.get(status, 3)
        found[_SECTION_OF[kind]][order].append(number)
    return {name: [number for numbers in by_order.values() for number in numbers] for name, by_order in found.items()}


def _replaced(found: Iterable[Any]) -> dict[int, str]:
    """What replaces a finding, by the number of the one that is replaced."""
    return {row.supersedes_id: f"F{row.id}" for row in found if row.supersedes_id is not None}


def sections(found: Sequence[Any], replaced: Mapping[int, str] | None = None) -> list[Section]:
    """From rows in any order; what is replaced by a row that is not among them is told beside them."""
    replaced = _replaced(found) if replaced is None else replaced
    return [
        Section(
            name=name, title=title, order=order, priority=priority, pinned=pinned, more=_LIST,
            items=sorted((_item(row, replaced.get(row.id)) for row in found if row.kind in kinds), key=_rank),
        )
        for name, title, order, priority, pinned, kinds in _SECTIONS
    ]  # fmt: skip


def _rank(item: dict[str, Any]) -> tuple[int, int]:
    """What holds comes before what is open, and that before what is over; older before newer."""
    return _order(item["status"]), int(item["id"][1:])


def _order(status: str) -> int:
    return _ORDER.get(status, 3)


def _item(row: Any, replaced_by: str | None) -> dict[str, Any]:
    told = _Told(
        row.id, row.kind, row.title, row.detail, row.reason, tuple(row.evidence or ()), row.status,
        row.supersedes_id, row.at, row.provenance, replaced_by,
    )  # fmt: skip
    return dict(_said(told))


class _Told(NamedTuple):
    """All that an item is made of."""

    id: int
    kind: str
    title: str
    detail: str | None
    reason: str | None
    evidence: tuple[str, ...]
    status: str | None
    supersedes_id: int | None
    at: datetime | None
    provenance: str | None
    replaced_by: str | None


@lru_cache(_KEPT)
def _said(told: _Told) -> dict[str, Any]:
    """Most findings are the same as in the checkpoint before; what is told of one in another way is another key."""
    status = "superseded" if told.replaced_by else str(told.status)
    item = {"id": f"F{told.id}", "ids": [f"F{told.id}"], "kind": told.kind}
    item |= {"label": _LABELS.get(told.kind, told.kind), "title": told.title, "status": status}
    item |= r.present(
        detail=told.detail,
        reason=told.reason,
        evidence=list(told.evidence),
        supersedes=r.public("F", told.supersedes_id),
        superseded_by=told.replaced_by,
        at=r.when(told.at),
        provenance=told.provenance,
    )
    return item | _weight(told.kind, status)


def _weight(kind: str, status: str) -> dict[str, Any]:
    """What is over gives way before what holds; why it is over stays longer than what has replaced it."""
    if status in _OVER:
        return {"pinned": False, "priority": 26 if status == "refuted" else 75}
    if kind == "root_cause" and status == "open":
        return {"pinned": False, "priority": 10}
    return {"priority": 8} if kind in ("constraint", "decision") else {}
