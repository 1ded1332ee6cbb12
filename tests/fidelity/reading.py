"""The facts that the Markdown of a checkpoint tells, as lines of a session file: what a reader could type in again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from tests.fidelity import markdown
from tests.fidelity.markdown import Item, Page

Line = dict[str, Any]
_STATES = "starting|loading|capturing|warming|ready|failed|exited|lost"
_TITLE = re.compile(r"Sitrep C\d+ · S\d+ (?P<name>.*) · \d{4}-\d\d-\d\dT\S+ · trigger")
_GOAL = re.compile(r"S\d+ goal: (?P<text>.*)")
_DIRECTIVE = re.compile(r"(?P<id>D\d+)(?P<words>(?: \([^)]*\))*): (?P<text>.*)")
_STEP = re.compile(r"(?P<id>N\d+) \((?P<state>todo|doing|done|dropped)(?P<more>[^)]*)\): (?P<text>.*)")
_FINDING = re.compile(
    r"(?P<id>F\d+) (?P<kind>root cause|rejected option|rejected|constraint|decision|hypothesis|observation)"
    r"(?: \((?:tried, )?(?P<status>open|confirmed|refuted|superseded)[^)]*\))?: (?P<title>.*?)"
    r"(?: — (?!reason|evidence|replaces)(?P<detail>.*?))?(?: — reason: (?P<reason>.*?)| — reason not recorded)?"
    r"(?: — evidence: (?P<evidence>.*?))?(?: — replaces (?P<supersedes>F\d+))?",
)
_LAUNCH = re.compile(
    rf"(?P<id>L\d+)(?: (?P<name>\S+))? (?:is |was told as |told as )?(?P<state>{_STATES})\b(?P<more>.*)"
)
_COMMAND = re.compile(r"Command of (?P<id>L\d+)")
_VALUE = r"(?P<value>-?\d[\d.]*)(?: (?P<unit>[^\s,;]+))?"
_BEST = re.compile(rf"(?P<id>B\d+)(?: (?P<name>.*?))?: {_VALUE} (?P<metric>[a-z_]+)(?=[,;]|$)(?P<more>.*)")
_BASE = re.compile(rf"to the baseline (?P<id>B\d+) \({_VALUE}\)")
_RAN_ON = re.compile(r"Command of (?P<launch>L\d+), which (?P<id>B\d+) ran on")
_ROW = re.compile(r"(?P<id>B\d+)(?: (?P<name>.*))?")
_KINDS = {"root cause": "root_cause", "rejected option": "rejected", "rejected": "rejected"}


def lines(text: str) -> list[Line]:
    """One line a fact; of what is told twice, what is told first counts."""
    page = markdown.read(text)
    title = _TITLE.match(page.first)
    assert title is not None, page.first
    merged: dict[str, Line] = {}
    for line in [{"type": "session", "key": "session", "name": title["name"]}, *_told(page)]:
        into = merged.setdefault(line["key"], line)
        for name, value in line.items():
            into.setdefault(name, value)
    return [_without_dangling(line, merged) for line in merged.values()]


def _told(page: Page) -> Iterator[Line]:
    for item in page.items:
        for read in _READERS.get(item.section, ()):
            yield from read(item)
    yield from _rows(page)


def _without_dangling(line: Line, known: dict[str, Line]) -> Line:
    """A fact that is named, but not told, cannot be named in another store."""
    kept = {name: value for name, value in line.items() if name not in ("launch", "supersedes") or value in known}
    if "after" in kept:
        kept["after"] = [one for one in kept["after"] if one in known]
    return kept


def _session(item: Item) -> Iterator[Line]:
    goal = _GOAL.fullmatch(item.line)
    if goal is not None and goal["text"] != "not recorded":
        yield {"type": "session", "key": "session", "goal": item.told(goal["text"])}


def _directive(item: Item) -> Iterator[Line]:
    told = _DIRECTIVE.fullmatch(item.line)
    if told is not None:
        active = "taken back" not in told["words"]
        yield {"type": "directive", "key": told["id"], "text": item.told(told["text"]), "active": active}


def _step(item: Item) -> Iterator[Line]:
    told = _STEP.fullmatch(item.line)
    if told is not None:
        line: Line = {"type": "next_step", "key": told["id"], "text": item.told(told["text"]), "state": told["state"]}
        order = re.search(r"order (-?\d+)", told["more"])
        after = re.search(r"after ([A-Z]\d+(?:, [A-Z]\d+)*)", told["more"])
        line |= {"order": int(order[1])} if order else {}
        yield line | ({"after": after[1].split(", ")} if after else {})


def _finding(item: Item) -> Iterator[Line]:
    told = _FINDING.fullmatch(item.line)
    if told is not None:
        line: Line = {"type": "finding", "key": told["id"], "kind": _KINDS.get(told["kind"], told["kind"])}
        line |= {"status": told["status"] or "confirmed", "title": item.told(told["title"])}
        line |= {name: item.told(told[name]) for name in ("detail", "reason") if told[name]}
        yield line | ({"supersedes": told["supersedes"]} if told["supersedes"] else {})


def _launch(item: Item) -> Iterator[Line]:
    told = _LAUNCH.fullmatch(item.line.split("\x00")[0].strip())
    if told is not None:
        line: Line = {"type": "launch", "key": told["id"], "state": told["state"]}
        log, port = re.search(r"\blog (\S+?)(?=[;,]|$)", told["more"]), re.search(r"\bport (\d+)", told["more"])
        line |= {"name": told["name"]} if told["name"] else {}
        line |= {"log_path": log[1]} if log else {}
        line |= {"port": int(port[1])} if port else {}
        yield line | ({"command": item.commands[0]} if item.commands else {})


def _command(item: Item) -> Iterator[Line]:
    told = _COMMAND.match(item.line)
    if told is not None and item.commands:
        yield {"type": "launch", "key": told["id"], "command": item.commands[0]}


def _best(item: Item) -> Iterator[Line]:
    told, ran = _BEST.fullmatch(item.line), _RAN_ON.match(item.line)
    if ran is not None:
        yield {"type": "benchmark", "key": ran["id"], "launch": ran["launch"]}
    if told is None:
        return
    config, _, work = told["more"].partition("; ")[2].partition("workload ")
    workload = _settings(work.split("; ")[0].split(" "))
    yield _run(told, told["metric"], _settings(config.rstrip("; ").split("; ")[0].split(" ")), workload)
    base = _BASE.search(told["more"])
    if base is not None:
        yield _run(base, told["metric"], {}, workload) | {"baseline": True}


def _rows(page: Page) -> Iterator[Line]:
    """The table, with what all of its rows have in common."""
    items = list(page.of("Benchmarks"))
    common, workload = _shared(items)
    metric = "output_throughput"
    for item in items:
        cells = [cell.strip() for cell in item.line.strip("|").split(" | ")]
        if len(cells) == 4 and cells[0].startswith("Configuration"):
            metric = cells[1]
        elif len(cells) == 4:
            name, value = _ROW.fullmatch(cells[0]), re.fullmatch(_VALUE, cells[1])
            assert name is not None, item.line
            assert value is not None, item.line
            yield _row(name, value, metric, cells[3].split(", "), common, workload)


def _row(
    name: re.Match[str], value: re.Match[str], metric: str, notes: list[str], common: Line, workload: Line
) -> Line:
    own = next((note for note in notes if note.startswith("workload ")), "")
    config = common | _settings([note for note in notes if "=" in note and note != own])
    line = _run(value, metric, config, workload | _settings(own.removeprefix("workload ").split(" ")))
    line |= {"key": name["id"], "comparable": "not comparable" not in notes, "baseline": "baseline" in notes}
    line |= {"name": name["name"]} if name["name"] else {}
    launch = next((note for note in notes if re.fullmatch(r"on L\d+", note)), None)
    return line | ({"launch": launch.removeprefix("on ")} if launch else {})


def _run(told: re.Match[str], metric: str, config: Line, workload: Line) -> Line:
    groups = told.groupdict()
    value: Line = {"value": Decimal(groups["value"])} | ({"unit": groups["unit"]} if groups["unit"] else {})
    line: Line = {"type": "benchmark", "key": groups.get("id"), "metrics": {metric: value}}
    line |= {"config": config} if config else {}
    line |= {"workload": workload} if workload else {}
    return line | ({"name": groups["name"]} if groups.get("name") else {})


def _shared(items: list[Item]) -> tuple[Line, Line]:
    for item in items:
        if item.line.startswith("In all rows:"):
            config, _, workload = item.line.removeprefix("In all rows:").strip().partition("workload ")
            return _settings(config.rstrip("; ").split(" ")), _settings(workload.split(" "))
    return {}, {}


def _settings(told: list[str]) -> Line:
    """`name=value` pairs; a value is what JSON takes it for, else text."""
    found: Line = {}
    for name, sign, value in (one.partition("=") for one in told):
        if sign:
            try:
                found[name] = json.loads(value, parse_float=Decimal)
            except json.JSONDecodeError:
                found[name] = value
    return found


_READERS: dict[str, tuple[Callable[[Item], Iterator[Line]], ...]] = {
    "Now": (_launch, _command),
    "Next steps": (_step,),
    "Goal and directives": (_session, _directive),
    "Root causes and constraints": (_finding,),
    "Decisions and rejected options": (_finding,),
    "Hypotheses and observations": (_finding,),
    "Best configuration": (_best, _command),
    "Launches before": (_launch,),
}
