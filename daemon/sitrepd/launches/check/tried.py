"""Whether the same was tried before and failed, or was rejected by a finding."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, or_, select

from sitrepd.benchmarks.models import Benchmark
from sitrepd.claims.overlap import duration
from sitrepd.clock import utc_now
from sitrepd.findings.models import Finding
from sitrepd.launches.check.configuration import Configuration, configuration
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.engines import engine_for
from sitrepd.launches.models import Launch
from sitrepd.launches.repeat.around import read_around
from sitrepd.launches.store import words_of
from sitrepd.storage import ids
from sitrepd.storage.base import Event

_MOST_LAUNCHES = 60
_MOST_FINDINGS = 200
# What failed for a reason that lies outside of the command, and may be gone.
_PASSING = {"port_in_use", "gpu_occupied", "host_oom_killed", "driver", "disk_full", "killed", "network"}
_OUTSIDE = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGXCPU)
_COMMON = {
    "a",
    "an",
    "the",
    "with",
    "of",
    "and",
    "or",
    "for",
    "on",
    "in",
    "at",
    "to",
    "is",
    "no",
    "use",
    "using",
    "size",
}


def check_tried(subject: Subject, look: Look) -> Iterable[Check]:
    if not subject.facts.flags:
        return
    mine = configuration(subject.facts, subject.told_env, subject.env)
    with look.store.read() as db:
        rows = _launches(db, subject.facts.model_path)
        same = [row for row in rows if _of(row).is_same(mine)]
        yield from _failed(db, same)
        yield from _rejected(db, subject, look, {row.id for row in same if row.id})


def _launches(db: Session, model: str | None) -> list[Launch]:
    """The latest of this model, newest first."""
    mine = or_(col(Launch.model) == model, col(Launch.model_id).is_not(None), col(Launch.model).is_(None))
    query = select(Launch).where(mine).order_by(col(Launch.id).desc()).limit(_MOST_LAUNCHES)
    return list(db.exec(query).all())


def _of(row: Launch) -> Configuration:
    argv, told_env = words_of(row)
    around = read_around(row)
    env = {**around.env, **told_env} if around is not None and not around.inherit_env else None
    return configuration(engine_for(argv).describe(argv, told_env), told_env, env)


def _failed(db: Session, same: Sequence[Launch]) -> Iterable[Check]:
    """The latest failure of this configuration, unless it has become ready since."""
    for row in same:
        if row.ready_at is not None or row.state == "ready":
            yield Check(name="tried", level="ok", text=f"The same became ready as L{row.id}.", ids=[f"L{row.id}"])
            return
        if row.state == "failed":
            yield _said(db, row)
            return


def _said(db: Session, row: Launch) -> Check:
    public = ids.public_id("L", row.id or 0)
    category = _category(db, public)
    if _was_ended(row, category):
        text = (
            f"The same was ended from outside {_ago(row)}as {public}, before it was ready, and was not found to fail."
        )
        return Check(name="tried", level="note", text=text, ids=[public])
    found = _findings_on(db, public)
    cause = row.failure or (found[0].title if found else "the cause is not known")
    text = f"The same failed {_ago(row)}as {public}{f' with {category}' if category else ''}: {cause}"
    passing = category in _PASSING
    fix = next((one.detail.partition("Fix: ")[2] for one in found if one.detail and "Fix: " in one.detail), None)
    return Check(
        name="tried", level="note" if passing else "warning", text=text,
        fix=fix or (None if passing else f"Change something first; see sitrep show {public}"),
        ids=[public, *(ids.public_id("F", one.id or 0) for one in found)],
    )  # fmt: skip


def _was_ended(row: Launch, category: str | None) -> bool:
    """By a signal, or a limit of time, without a cause of its own."""
    outside = row.exit_signal in _OUTSIDE or row.exit_code in (124, *(128 + number for number in _OUTSIDE))
    return outside and category in (None, "unknown") and row.watched


def _ago(row: Launch) -> str:
    at: datetime | None = row.ended_at or row.started_at or row.at
    return f"{duration(utc_now() - at)} ago " if at else ""


def _category(db: Session, public: str) -> str | None:
    query = select(Event).where(col(Event.subject) == public, col(Event.kind) == "launch.changed")
    told = [event.data["category"] for event in db.exec(query).all() if event.data.get("category")]
    return str(told[-1]) if told else None


def _findings_on(db: Session, public: str) -> list[Finding]:
    query = select(Finding).where(col(Finding.status).in_(("open", "confirmed"))).order_by(col(Finding.id).desc())
    rows = db.exec(query.limit(_MOST_FINDINGS)).all()
    return [row for row in rows if public in (row.evidence or ()) and row.kind in ("root_cause", "observation")][:2]


def _rejected(db: Session, subject: Subject, look: Look, same: set[int]) -> Iterable[Check]:
    """Rejected options that rest on a launch like this one, or of this session that name one of its flags."""
    query = select(Finding).where(Finding.kind == "rejected", col(Finding.status).in_(("open", "confirmed")))
    for row in db.exec(query.order_by(col(Finding.id).desc()).limit(_MOST_FINDINGS)).all():
        rests = same & set(_launches_behind(db, row.evidence or ()))
        named = named_flag(row.title, subject) if row.session_id in (None, look.session_id) else None
        if not rests and named is None:
            continue
        public = ids.public_id("F", row.id or 0)
        on = f" (it rests on L{max(rests)}, the same configuration)" if rests else f" (this command has {named})"
        why = row.reason or row.detail
        text = f"{public} rejected {row.title!r}{on}{f': {why}' if why else '.'}"
        listed = [public, *(f"L{number}" for number in sorted(rests))]
        yield Check(name="rejected", level="warning", text=text, fix=f"See sitrep show {public}", ids=listed)


def _launches_behind(db: Session, evidence: Iterable[str]) -> Iterable[int]:
    for one in evidence:
        parsed = ids.parse_id(one)
        if parsed is None:
            continue
        if parsed[0] == "L":
            yield parsed[1]
        elif parsed[0] == "B" and (run := db.get(Benchmark, parsed[1])) is not None and run.launch_id:
            yield run.launch_id


def named_flag(title: str, subject: Subject) -> str | None:
    """The flag that a title means: `--kv-cache-dtype fp8_e4m3` for "FP8 KV cache", NCCL_P2P_LEVEL=SYS by its name."""
    for name, value in subject.told_env.items():
        if name in title and (f"{name}=" not in title or f"{name}={value}" in title):
            return f"{name}={value}"
    words = _tokens(title) - _COMMON
    for name, told in subject.facts.flags.items():
        values: list[Any] = told if isinstance(told, list) else [] if isinstance(told, bool) else [told]
        flag = " ".join([f"--{name.replace('_', '-')}", *map(str, values)])
        if f"--{name.replace('_', '-')}" in title:
            if flag in title.replace("=", " ") or not re.search(rf"--{name.replace('_', '-')}[ =]\S", title):
                return flag
        elif len(words) > 1 and words <= _tokens(flag):
            return flag
    return None


def _tokens(text: str) -> set[str]:
    return {
        word.rstrip("s") if word.isalpha() and len(word) > 3 else word
        for word in re.findall(r"[a-z]+\d*\w?|\d+(?:\.\d+)?", text.lower().replace("_", " "))
    }
