"""What the store knows of the launches that an earlier daemon watched, to take them up again."""

from __future__ import annotations

from dataclasses import replace

from sqlmodel import col, select

from sitrepd.launches import store
from sitrepd.launches.discovery import adopt
from sitrepd.launches.engines import base as e
from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.storage.store import Store


def watched(of: Store) -> list[tuple[Launch, list[LaunchPhase]]]:
    """Those that had not ended, with their phases."""
    with of.read() as db:
        rows = db.exec(select(Launch).where(col(Launch.watched).is_(True), col(Launch.ended_at).is_(None))).all()
        return [
            (row, list(db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == row.id)).all()))
            for row in rows
            if row.process and row.process.get("identity")
        ]


def engine_of(row: Launch) -> tuple[e.Engine, e.CommandFacts]:
    """Which engine it is, and what its command says."""
    if adopt.is_adopted(row):
        return adopt.described(row)
    try:
        engine = engine_named(row.engine or "generic", row.ready_url, row.ready_pattern)
    except KeyError:
        engine = engine_for([], row.ready_url, row.ready_pattern)
    argv, env = store.words_of(row)
    facts = engine.describe(argv, env)
    zone = (row.process or {}).get("timezone")
    facts = replace(facts, timezone=zone) if zone else facts
    # Told by the caller or by the log, where the command does not say it.
    return engine, replace(facts, port=row.port) if row.port else facts
