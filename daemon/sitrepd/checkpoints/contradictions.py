"""Facts that cannot all hold, found among the sections of a checkpoint and shown as such: nothing is decided here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

from sitrepd.sections import Section

Items = Mapping[str, Sequence[Mapping[str, Any]]]
Found = Iterator[tuple[str, Sequence[str]]]

_OVER = ("refuted", "superseded")
_NEVER_READY = ("failed", "lost")
_FINDINGS = ("root_causes", "decisions", "open_points")
_NAMED = re.compile(r"\b([A-Z][1-9]\d{0,17})\b")
_MOST = 20


def contradictions(sections: Sequence[Section], here: Iterable[tuple[str, Sequence[str]]] = ()) -> list[Section]:
    """Section `contradictions`; `here` are those between what was told and what this machine shows."""
    items: Items = {section.name: section.items for section in sections}
    found = [one for rule in _RULES for one in rule(items)]
    found += here
    told = [
        {"kind": "contradiction", "ids": list(ids), "text": text, "what": f"contradiction of {', '.join(ids)}"}
        for text, ids in dict(found).items()
    ]
    if not told:
        return []
    return [
        Section(
            name="contradictions", title="Contradictions", order=15, priority=8, pinned=True, items=told[:_MOST],
            data={"earlier": len(told) - _MOST} if len(told) > _MOST else {},
        )
    ]  # fmt: skip


def _every(items: Items, *names: str) -> Iterator[Mapping[str, Any]]:
    for name in names:
        yield from items.get(name, ())


# --- findings ----------------------------------------------------------------------------------------------------


def _replaced_each_other(items: Items) -> Found:
    by = {item["id"]: item["supersedes"] for item in _every(items, *_FINDINGS) if item.get("supersedes")}
    for ring in _rings(by):
        yield f"{' and '.join(ring)} are told to replace each other: which one holds is not known", ring


def _rings(by: Mapping[str, str]) -> Iterator[list[str]]:
    """Ids that lead back to themselves, each ring once."""
    done: set[str] = set()
    for one in by:
        path: dict[str, None] = {}
        while one in by and one not in done and one not in path:
            path[one] = None
            one = by[one]
        if one in path:
            ring = list(path)
            yield sorted(ring[ring.index(one) :], key=_number)
        done.update(path)


def _number(public_id: str) -> int:
    return int(public_id[1:])


def _rests_on_what_is_over(items: Items) -> Found:
    refuted = {item["id"] for item in _every(items, *_FINDINGS) if item["status"] == "refuted"}
    for item in _every(items, *_FINDINGS):
        for cited in item.get("evidence", ()):
            if item["status"] == "confirmed" and cited in refuted:
                yield f"{item['id']} is confirmed, but {cited}, its evidence, is refuted", [item["id"], cited]


def _decided_and_rejected(items: Items) -> Found:
    current = [item for item in _every(items, "decisions") if item["status"] not in _OVER]
    titles = {_plain(item["title"]): item["id"] for item in current if item["kind"] == "rejected"}
    for item in current:
        other = titles.get(_plain(item["title"]))
        if item["kind"] == "decision" and other:
            yield f"{item['id']} decides what {other} rejects: both say “{_one(item['title'])}”", [item["id"], other]


# --- directives and next steps -----------------------------------------------------------------------------------


def _cites_what_was_taken_back(items: Items) -> Found:
    gone = {item["id"] for item in _every(items, "goal") if item["kind"] == "directive" and not item["active"]}
    for item in _current(items) if gone else ():
        for cited in sorted(gone & _cited(item)):
            yield f"{item['id']} names {cited}, which the user has taken back", [item["id"], cited]


def _does_what_was_rejected(items: Items) -> Found:
    for step in _open_steps(items):
        for named in step.get("rejected", ()):
            yield f"{step['id']} is to do, and names {named}, a rejected option", [step["id"], named]


def _current(items: Items) -> Iterator[Mapping[str, Any]]:
    yield from _open_steps(items)
    yield from (item for item in _every(items, *_FINDINGS) if item["status"] not in _OVER)


def _open_steps(items: Items) -> Iterator[Mapping[str, Any]]:
    return (step for step in _every(items, "next_steps") if step["state"] in ("todo", "doing"))


def _cited(item: Mapping[str, Any]) -> set[str]:
    """Ids that the words of a fact name."""
    words = [item.get(name) or "" for name in ("text", "title", "detail", "reason")]
    return {*_NAMED.findall(" ".join(words)), *item.get("evidence", ()), *item.get("after", ())}


def _done_but_waits(items: Items) -> Found:
    steps = {step["id"]: step for step in _every(items, "next_steps")}
    for step in steps.values():
        for other in step.get("after", ()):
            waited = steps.get(other)
            if step["state"] == "done" and waited is not None and waited["state"] in ("todo", "doing"):
                yield (
                    f"{step['id']} is done, but {other}, which it waits for, is still {waited['state']}",
                    [step["id"], other],
                )


def _waits_for_ever(items: Items) -> Found:
    """Steps that wait for what will not come: one that was dropped, or each other."""
    steps = {step["id"]: step for step in _open_steps(items)}
    for step in steps.values():
        for other in step.get("after", ()):
            if step.get("ended", {}).get(other) == "dropped":
                yield f"{step['id']} waits for {other}, which was dropped", [step["id"], other]
            back = steps.get(other, {}).get("after", ())
            if step["id"] in back and _number(step["id"]) < _number(other):
                yield f"{step['id']} and {other} wait for each other", [step["id"], other]


# --- launches and benchmarks -------------------------------------------------------------------------------------


def _two_baselines(items: Items) -> Found:
    marked = [row for row in _every(items, "benchmarks") if row["kind"] == "row" and row.get("marked")]
    ids = sorted((one for row in marked for one in row["marked"]), key=_number)
    if len(marked) > 1:
        yield f"{', '.join(ids)} are all told as the baseline: differences are to the last one that counts", ids


def _two_bests(items: Items) -> Found:
    best = [item for item in _every(items, "best") if item["kind"] == "best"]
    if len(best) > 1:
        ids = [one for item in best for one in item["ids"]]
        yield (
            f"{' and '.join(', '.join(item['ids']) for item in best)} are equally good: neither is the better one",
            ids,
        )


def _launches(items: Items) -> dict[str, Mapping[str, Any]]:
    told = [
        *_every(items, "launches"),
        *(item for item in _every(items, "now") if item["kind"] in ("launch", "failure")),
    ]
    return {item["id"]: item for item in told}


def _measured_where_nothing_ran(items: Items) -> Found:
    launches = _launches(items)
    for row in _every(items, "benchmarks", "best"):
        for public_id in row.get("launches", ()) if row["kind"] in ("row", "best") else ():
            launch = launches.get(public_id)
            for run, at in row.get("times", {}).items() if launch is not None and len(row["launches"]) == 1 else ():
                why = _not_then(launch or {}, at)
                if why:
                    yield f"{run}, told as of {at}, names {public_id}, which {why}", [run, public_id]
            if launch is not None and launch.get("state") in _NEVER_READY and not launch.get("ready_at"):
                told = f"{', '.join(row['ids'])} names {public_id}, which {_ended(launch)} without having been ready"
                yield told, [*row["ids"], public_id]


def _not_then(launch: Mapping[str, Any], at: str) -> str | None:
    """Why nothing was measured on the launch at that time; times are ISO in UTC, to the second."""
    if launch.get("started_at") and at < launch["started_at"]:
        return f"was started only at {launch['started_at']}"
    if launch.get("ended_at") and launch["state"] in _NEVER_READY and at > launch["ended_at"]:
        return f"{_ended(launch)} before, at {launch['ended_at']}"
    return None


def _ended(launch: Mapping[str, Any]) -> str:
    return "was lost" if launch["state"] == "lost" else str(launch["state"])


def _one_port_twice(items: Items) -> Found:
    """Of two launches that are told to live on one port of one host, one cannot."""
    alive = [item for item in _every(items, "now") if item["kind"] == "launch" and item.get("port")]
    for a, b in combinations(alive, 2):
        if a["port"] == b["port"] and (a.get("host") or {}).get("id") == (b.get("host") or {}).get("id"):
            yield (
                f"{a['id']} ({a['state']}) and {b['id']} ({b['state']}) are both told to have port {a['port']}",
                [
                    a["id"],
                    b["id"],
                ],
            )


def _config_is_not_the_command(items: Items) -> Found:
    """The best run was told with one value of a setting, and its launch was started with another."""
    best = [item for item in _every(items, "best") if item["kind"] in ("best", "command")]
    for item, command in pairwise(best):
        if item["kind"] != "best" or command["kind"] != "command":
            continue
        flags = _flags(command["command"])
        for name, value in (setting.split("=", 1) for setting in item.get("settings", ()) if "=" in setting):
            given = flags.get(name.lower().replace("-", "_"))
            if given is not None and _plain(given) != _plain(value) and value != "null":
                ids = [*item["ids"], command["launch"]]
                yield (
                    f"{', '.join(item['ids'])} was told with {name}={value}, but {ids[-1]} was started with {given}",
                    ids,
                )


def _flags(command: str) -> dict[str, str]:
    """Values of `--flag value` and `--flag=value`, by the flag's name with underscores."""
    try:
        words = shlex.split(command)
    except ValueError:
        return {}
    found: dict[str, str] = {}
    for word, after in zip(words, [*words[1:], "--"], strict=True):
        name, equals, value = word.partition("=")
        if not name.startswith("--"):
            continue
        if equals or not after.startswith("-"):
            found[name[2:].replace("-", "_")] = value if equals else after
    return found


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" .\"'")


def _one(text: str) -> str:
    return " ".join(text.split())


_RULES: Sequence[Callable[[Items], Found]] = (
    _replaced_each_other, _rests_on_what_is_over, _decided_and_rejected,
    _cites_what_was_taken_back, _does_what_was_rejected, _done_but_waits, _waits_for_ever, _two_baselines, _two_bests,
    _measured_where_nothing_ran, _one_port_twice, _config_is_not_the_command,
)  # fmt: skip
