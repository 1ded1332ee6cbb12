"""All that is known of one launch, as plain data to be compared or written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.launches import children, store
from sitrepd.launches.command import CommandError, parse_command
from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.launches.models import Launch, LaunchPhase, LaunchSize
from sitrepd.launches.repeat.around import Around, read_around
from sitrepd.slices import Registry
from sitrepd.storage import ids


@dataclass(frozen=True)
class Side:
    """One launch with its phases, sizes, stack and host; `around` is None where it was not started here."""

    row: Launch
    facts: CommandFacts
    argv: Sequence[str]
    assigned: dict[str, str]
    phases: Sequence[dict[str, Any]] = ()
    sizes: Sequence[dict[str, Any]] = ()
    stack: Any = None
    host: Any = None
    around: Around | None = None

    @property
    def id(self) -> str:
        return ids.public_id("L", self.row.id or 0)

    @property
    def environment(self) -> dict[str, str]:
        """What is known of it, secrets as references: the caller's, what was told, what the command sets."""
        return {**(self.around.env if self.around else {}), **(self.row.env or {}), **self.assigned}

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.row.settings or {}


def side(db: Session, registry: Registry, row: Launch) -> Side:
    """Read what the store has of a launch; quick, but the surroundings are read from a small file."""
    around = read_around(row)
    argv, env = _words(row, around)
    phases = db.exec(select(LaunchPhase).where(LaunchPhase.launch_id == row.id).order_by(col(LaunchPhase.id))).all()
    sizes = db.exec(select(LaunchSize).where(LaunchSize.launch_id == row.id).order_by(col(LaunchSize.id))).all()
    stack = registry.by_word["stack"].table
    newest = select(stack).where(stack.launch_id == row.id).order_by(col(stack.id).desc())  # type: ignore[attr-defined]
    return Side(
        row=row,
        facts=_facts(row, argv, env),
        argv=argv,
        assigned={name: value for name, value in env.items() if name not in (row.env or {})},
        phases=[one.model_dump(exclude_none=True) for one in children.phases(phases)],
        sizes=children.sizes(sizes),
        stack=db.exec(newest.limit(1)).first(),
        host=db.get(registry.by_word["host"].table, row.host_id) if row.host_id else None,
        around=around,
    )


def _words(row: Launch, around: Around | None) -> tuple[Sequence[str], dict[str, str]]:
    """Words and what is set for them; variables of the caller's shell have their values where these are known."""
    if not row.command or around is None:
        return store.words_of(row)
    try:
        command = parse_command(row.command, {**around.env, **(row.env or {})}, row.cwd or "/")
    except CommandError:
        return store.words_of(row)
    known = {name: value for name, value in command.environment.items() if value is not None}
    return command.argv, {**(row.env or {}), **known}


def _facts(row: Launch, argv: Sequence[str], env: Mapping[str, str]) -> CommandFacts:
    try:
        engine = engine_named(row.engine) if row.engine else engine_for(argv)
    except KeyError:
        engine = engine_for(argv)
    return engine.describe(argv, env)
