"""`sitrep backfill --transcript`: conversations of coding agents, read from what their clients have stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sitrepd.cli import output
from sitrepd.cli.backfill import poster, say_kind, say_not_understood
from sitrepd.cli.verbs import Cli

if TYPE_CHECKING:
    from sitrepd.backfill.transcripts.find import Told

_TOGETHER = 50
# A part of a request is no longer than so, however long its texts are.
_MOST_CHARACTERS = 2_000_000
_SHOWN = 100


def read_transcripts(cli: Cli, paths: list[str], dry_run: bool, host: str | None) -> None:
    from sitrepd.backfill.transcripts.find import find

    session = None if dry_run else cli.client.get("/sessions/current").data["id"]
    told = find(paths)
    settled = {} if dry_run else _tell(cli, told, host)
    report = {"session": session, "dry_run": dry_run} | _report(told, paths, settled)
    if cli.json:
        output.as_json(report)
    else:
        _say(report)


def _tell(cli: Cli, told: Told, host: str | None) -> dict[str, dict[str, str]]:
    """What became of each fact, by its key; runs come before the commands that name them."""
    from sitrepd.backfill import told as words
    from sitrepd.backfill.transcripts import find

    post = poster(cli, host)
    settled: dict[str, dict[str, str]] = {}
    for part in words.benchmarks(told.results):
        settled |= {one["key"]: one for one in post({"benchmarks": part})}
    messages = [words.plain(find.message(*one)) for one in told.said]
    commands = [words.plain(find.command(*one)) for one in told.done]
    for kind, facts in (("messages", messages), ("commands", commands)):
        for part in _parts(facts):
            settled |= {one["key"]: one for one in post({kind: part})}
    return settled


def _parts(facts: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    part: list[dict[str, Any]] = []
    size = 0
    for fact in facts:
        length = sum(len(value) for value in fact["fact"].values() if isinstance(value, str))
        if part and (len(part) >= _TOGETHER or size + length > _MOST_CHARACTERS):
            yield part
            part, size = [], 0
        part.append(fact)
        size += length
    if part:
        yield part


def _report(told: Told, paths: Sequence[str], settled: dict[str, dict[str, str]]) -> dict[str, Any]:
    from sitrepd.backfill.told import plain

    def line(key: str, **about: Any) -> dict[str, Any]:
        of = settled.get(key)
        return ({"id": of["id"], "outcome": of["outcome"]} if of else {}) | about

    return dict(
        plain(
            {
                "paths": list(paths),
                "files": told.files,
                "conversations": [
                    {
                        "id": one.id, "client": one.client, "path": one.path, "folder": one.folder,
                        "messages": len(one.said), "commands": len(one.done),
                    }
                    for one in told.conversations
                ],
                "messages": [
                    line(said.key, name=_short(said.text), at=said.at, synthetic=said.synthetic, path=of.path)
                    for of, said in told.said
                ],
                "commands": [
                    line(done.key, name=_short(done.ran.command), at=done.at, path=of.path)
                    for of, done, _ in told.done
                ],
                "benchmarks": [line(one.key, name=one.fact["name"], path=one.path) for one in told.results],
                "other_commands": told.other_commands,
                "not_understood": [vars(one) for one in told.not_understood],
                "notes": list(_notes(told)),
            }
        )
    )  # fmt: skip


def _short(text: str) -> str:
    from sitrepd.redact import redact_text

    line = " ".join(redact_text(text[: 4 * _SHOWN]).split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"


def _notes(told: Told) -> Iterator[str]:
    folders = sorted({one.folder for one in told.conversations if one.folder})
    if len(folders) > 1:
        shown = ", ".join(folders[:5]) + (", …" if len(folders) > 5 else "")
        yield f"The conversations were held in {len(folders)} folders: {shown}. All of them went into one session."
    if told.other_commands:
        yield f"Commands left out, as they start, measure, train, profile and install nothing: {told.other_commands}."


def _say(report: dict[str, Any]) -> None:
    conversations = report["conversations"]
    output.say(f"Conversations: {len(conversations)}, in {report['files']} files.")
    for noun, kind in (("message", "messages"), ("command", "commands"), ("benchmark", "benchmarks")):
        say_kind(noun, report[kind], report["session"])
    say_not_understood(report | {"passed_over": {}})
    for note in report["notes"]:
        output.say(note)
    if report["dry_run"]:
        output.say("Nothing was stored (--dry-run).")
