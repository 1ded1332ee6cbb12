"""What is kept of the runs from one checkpoint to the next says what a reading of all rows would say."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from sqlmodel import Session, col, delete
from tests.perf.sessions import long_session

from sitrepd import facts, portable
from sitrepd.benchmarks import board
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.checkpoints.collect import collect
from sitrepd.checkpoints.render import render
from sitrepd.checkpoints.service import model
from sitrepd.checkpoints.templates import Templates
from sitrepd.clock import utc_now
from sitrepd.facts import Scope
from sitrepd.slices import load_registry
from sitrepd.storage import events
from sitrepd.storage.base import Event
from sitrepd.storage.store import Store

NOW = utc_now()
REGISTRY = load_registry()
TEMPLATES = Templates(None)


def imported(store: Store, told: bytes) -> int:
    file = portable.parse(told, REGISTRY, "s.jsonl")
    store.write(lambda db: portable.store(db, REGISTRY, file, "s.jsonl", "told:test", again=True))
    with store.read() as db:
        return max(row.id or 0 for row in db.exec(facts.select(REGISTRY.by_word["session"].table)).all())  # type: ignore[attr-defined]


def told(db: Session, session: int, templates: Templates = TEMPLATES) -> str:
    """All that a checkpoint would hold, in order, and its texts."""
    collected = collect(db, REGISTRY, session, NOW)
    rendered = model(1, "2026-12-01T00:00:00Z", collected, "asked", None)
    texts = [render(rendered, "md", budget, templates) for budget in (None, 9000, 2000)]
    return json.dumps([collected.digest, rendered, *texts])


def anew(db: Session, session: int) -> str:
    board.forget()
    return told(db, session, Templates(None))


def alter(store: Store, session: int, chance: random.Random) -> None:
    """One thing that a session may go through."""
    scope = Scope(REGISTRY, "told:test", session)

    def job(db: Session) -> None:
        noun = REGISTRY.by_word["benchmark"]
        runs = facts.all_rows(db, noun, session)
        match chance.randrange(8):
            case 0 | 1 | 2:
                facts.tell(db, noun, noun.create.model_validate(_run(chance)), scope)
            case 3 if runs:
                change = chance.choice([
                    {"note": f"n{chance.random()}"}, {"baseline": chance.random() < 0.5}, {"comparable": chance.random() < 0.5},
                    {"config": {"steps": chance.randrange(4)}}, {"metrics": {"other": 1}}, {"name": None}, {"workload": {}},
                    {"metrics": {"output_throughput": chance.randrange(90)}}, {"launch": "L1"},
                ])  # fmt: skip
                facts.update(db, noun, chance.choice(runs), noun.update.model_validate(change), scope)
            case 4:
                finding = REGISTRY.by_word["finding"]
                body = {
                    "kind": "decision",
                    "title": "t",
                    "evidence": ["B1"],
                    "status": chance.choice(["open", "refuted"]),
                }
                facts.tell(db, finding, finding.create.model_validate(body), scope)
            case 5:
                noun = REGISTRY.by_word["session"]
                metric = chance.choice(["output_throughput", "median_ttft_ms", None])
                facts.update(
                    db, noun, db.get(noun.table, session), noun.update.model_validate({"best_metric": metric}), scope
                )
            case 6:
                noun = REGISTRY.by_word["launch"]
                row = chance.choice(list(facts.all_rows(db, noun, session)))
                facts.update(db, noun, row, noun.update.model_validate({"name": f"l{chance.random()}"}), scope)
            case _:
                for _ in range(3):
                    facts.tell(db, noun, noun.create.model_validate(_run(chance)), scope)

    store.write(job)


def _run(chance: random.Random) -> dict[str, Any]:
    metrics: dict[str, Any] = {
        "output_throughput": {"value": chance.randrange(80, 99), "unit": chance.choice(["tok/s", "x"])}
    }
    metrics |= {"median_ttft_ms": chance.randrange(9)} if chance.random() < 0.5 else {}
    return {
        "name": chance.choice([None, "a", "a, run 2", "b | c"]), "metrics": metrics if chance.random() < 0.9 else {},
        "config": {"steps": chance.choice([1, 2, 2.0])} if chance.random() < 0.8 else {},
        "workload": chance.choice([{}, {"n": 16}, {"n": 16}]), "baseline": chance.random() < 0.1,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_what_is_kept_says_the_same_as_all_rows_and_fresh_templates(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    sessions = [imported(store, long_session(3, 3, count, 9)) for count in (1, 20, 205)]
    for _ in range(15):
        session = chance.choice(sessions)
        alter(store, session, chance)
        with store.read() as db:
            assert told(db, session) == anew(db, session)


def test_a_reader_of_an_older_moment_sees_that_moment(store: Store) -> None:
    session = imported(store, long_session(3, 3, 20, 9))
    chance = random.Random(7)
    with store.read() as before:
        was = told(before, session)
        for _ in range(6):
            alter(store, session, chance)
        with store.read() as after:
            now = told(after, session)
        assert now != was
        assert told(before, session) == was
    with store.read() as after:
        assert told(after, session) == now == anew(after, session)


def test_of_many_findings_the_weightiest_are_told_and_the_rest_is_counted(store: Store) -> None:
    session = imported(store, long_session(1, 1, 1, 900))
    with store.read() as db:
        sections = {one.name: one for one in collect(db, REGISTRY, session, NOW).sections}
    for name in ("root_causes", "decisions", "open_points"):
        items = sections[name].items
        assert len(items) == 100
        assert sections[name].data["earlier"] == 200
        assert {item["status"] for item in items} <= {"confirmed", "open"}


def test_a_run_that_is_gone_and_changes_that_nobody_remembers_are_noticed(store: Store) -> None:
    session = imported(store, long_session(3, 3, 20, 9))
    runs = REGISTRY.by_word["benchmark"]
    scope = Scope(REGISTRY, "told:test", session)

    def change(db: Session, forgotten: bool) -> None:
        row = facts.get(db, runs, "B3")
        facts.update(db, runs, row, runs.update.model_validate({"note": f"forgotten: {forgotten}"}), scope)
        db.flush()
        if forgotten:
            events.forget(db, col(Event.kind).startswith("benchmark."))
            events.record(db, "session.updated", "S1", session)

    def drop_and_tell(db: Session) -> None:
        facts.tell(db, runs, runs.create.model_validate({"metrics": {"output_throughput": 99}}), scope)
        db.exec(delete(BenchmarkMetric).where(col(BenchmarkMetric.benchmark_id) == 5))
        db.exec(delete(Benchmark).where(col(Benchmark.id) == 5))

    with store.read() as db:
        told(db, session)
    for job in (lambda db: change(db, False), lambda db: change(db, True), drop_and_tell):
        store.write(job)
        with store.read() as db:
            assert told(db, session) == anew(db, session)
