"""Benchmarks, profiles, training runs and references, from the sections of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sitrepd import restoring as r
from sitrepd.restoring import Line, told
from sitrepd.sections import Section

_LONGEST = 500


def restore(section: Section) -> Iterable[Line]:
    """The lines of one section; none of those that other slices make."""
    reader = _READERS.get(section.name)
    return reader(section) if reader is not None else ()


def _best(section: Section) -> Iterable[Line]:
    """The best run and the baseline, also where the table is left out; what was asked of both is the same."""
    for item in section.items:
        if item.get("kind") == "best":
            config, workload = (r.settings(item.get(name) or []) for name in ("settings", "workload"))
            yield from _runs(item, item["metric"], item.get("better"), config, workload)
            against = item.get("baseline_run")
            if against is not None:
                against = {**against, "words": ["baseline"]}
                yield from _runs(against, item["metric"], item.get("better"), {}, workload)


def _table(section: Section) -> Iterable[Line]:
    """The rows, with what all of them share, and the other figures of single runs."""
    shared = next((item for item in section.items if item.get("kind") == "shared"), {})
    config, work = r.settings(shared.get("settings") or []), r.settings(shared.get("workload") or [])
    for item in section.items:
        if item.get("kind") == "row":
            own = config | r.settings(item.get("settings") or [])
            workload = work | r.settings(item.get("workload") or [])
            yield from _runs(item, section.data["metric"], section.data.get("better"), own, workload)
        elif item.get("kind") == "run":
            yield _details(item)


def _runs(item: Mapping[str, Any], metric: str, better: Any, config: Any, workload: Any) -> Iterable[Line]:
    """A line for each repeat that a row stands for."""
    ids, words = item["ids"], item.get("words") or []
    values = item.get("repeats") or [item["value"]]
    notes = item.get("notes") or []
    for place, key in enumerate(ids):
        value = {"value": values[place] if len(values) == len(ids) else item["value"], "unit": item.get("unit")}
        yield told(
            type="benchmark",
            key=key,
            name=_name(item),
            launch=_launch(item, place),
            baseline="baseline" in words or key in (item.get("marked") or ()) or None,
            comparable=False if "not comparable" in words else None,
            config=config,
            workload=workload,
            metrics={metric: r.measure(value | {"better": better})},
            note=_note(notes, place, len(ids)),
            marks=_marks(item, key),
            at=(item.get("times") or {}).get(key),
        )


def _marks(item: Mapping[str, Any], key: str) -> list[str] | None:
    """What was said against one repeat: each is told after its id."""
    return [mark.removeprefix(f"{key}: ") for mark in item.get("marks") or () if mark.startswith(f"{key}: ")] or None


def _name(item: Mapping[str, Any]) -> str | None:
    """What a row is called; a run without a name is called by its id, or by settings that may be longer than a name."""
    label = item.get("label")
    return label if isinstance(label, str) and label not in item["ids"] and len(label) <= _LONGEST else None


def _launch(item: Mapping[str, Any], place: int) -> str | None:
    """The launch of one repeat: told for each, or the same for all."""
    key, launches = item["ids"][place], item.get("launches") or []
    if item.get("launch_of"):
        return dict(item["launch_of"]).get(key)
    if len(launches) == len(item["ids"]):
        return str(launches[place])
    return str(launches[0]) if len(launches) == 1 else None


def _note(notes: list[str], place: int, runs: int) -> str | None:
    if len(notes) == runs or not notes:
        return notes[place] if notes else None
    return "; ".join(notes) if place == 0 else None


def _details(item: Mapping[str, Any]) -> Line:
    names = ("name", "tool", "launch", "artifact", "note", "baseline")
    return told(
        type="benchmark",
        key=item["id"],
        comparable=False if item.get("comparable") is False else None,
        config=r.settings(item.get("settings") or []),
        workload=r.settings(item.get("workload") or []),
        metrics=r.measures(item.get("metrics") or []),
        **{name: item.get(name) for name in names},
    )


def _profiles(section: Section) -> Iterable[Line]:
    for item in section.items:
        of = str(item.get("of") or "")
        phases = [{name: value if name in ("name", "group") else r.number(value) for name, value in one.items()}
                  for one in item["phases"]]  # fmt: skip
        launch, benchmark = (of if of.startswith(prefix) else None for prefix in "LB")
        more = {name: item.get(name) for name in ("name", "tool", "note")}
        yield told(type="profile", key=item["id"], launch=launch, benchmark=benchmark, phases=phases, **more)


def _trainings(section: Section) -> Iterable[Line]:
    for item in section.items:
        points = [
            told(epoch=r.number(one.get("epoch")), step=one.get("step")) | {"metrics": r.measures(one["metrics"])}
            for one in item.get("points") or []
        ]
        yield told(type="training", key=item["id"], points=points)


def _references(section: Section) -> Iterable[Line]:
    for item in section.items:
        config, workload = (r.settings(item.get(name) or []) for name in ("settings", "workload"))
        more = {name: item.get(name) for name in ("model", "hardware")}
        measured = r.measures(item.get("metrics") or [])
        yield told(type="reference", key=item["id"], metrics=measured, config=config, workload=workload, **more)


_READERS: dict[str, Callable[[Section], Iterable[Line]]] = {
    "best": _best,
    "benchmarks": _table,
    "profiles": _profiles,
    "training": _trainings,
    "references": _references,
}
