"""A sweep before it is run: its trials with their commands, what speaks against them, how long they may take."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field
from sqlmodel import Session, col, select

from sitrepd import redact
from sitrepd.benchmarks.running import presets
from sitrepd.errors import InvalidFact, SitrepError
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.model import Check, Look
from sitrepd.launches.check.run import CHECKS, OF_THE_MOMENT
from sitrepd.launches.check.subject import described
from sitrepd.launches.models import Launch, LaunchCreate
from sitrepd.launches.repeat.around import own_environment
from sitrepd.launches.start import plan as plan_launch
from sitrepd.reporting import command_line
from sitrepd.runtime import Runtime
from sitrepd.sweeps import search, template
from sitrepd.sweeps.asked import MOST_TRIALS, CallerIn, SweepAsked
from sitrepd.sweeps.grid import Combination, Grid, grid_of, trials_of

_CHECKS = [check for name, check in CHECKS.items() if name not in OF_THE_MOMENT]
_CHECKED = 100
# A whole grid and its baseline; a search may have a hundred times as many to choose from.
_LISTED = MOST_TRIALS + 1
_EARLIER = 5
_FLAGS_S = 60.0


class PlannedTrial(BaseModel):
    """A trial as it would be launched."""

    name: str
    baseline: bool = False
    settings: dict[str, Any] = Field(description="null is a setting that is left out.")
    command: str
    warnings: list[str] = Field(default_factory=list)


class Planned(BaseModel):
    """What a sweep would do. Of a search, `trials` are the first thousand of those that it chooses `count` from."""

    name: str | None = None
    count: int = Field(description="Trials that are run, at the most.")
    launches: int = Field(description="Starts of servers: one a trial.")
    runs: int = Field(description="Measurements: benchmarks with their repeats.")
    metric: str
    search: str
    choices: int = Field(description="Combinations that there are.")
    trials: list[PlannedTrial]
    start_s: float | None = Field(None, description="What a start took earlier; absent where none like it was seen.")
    starts_seen: int = 0


@dataclass(frozen=True)
class Plan:
    asked: SweepAsked
    base: LaunchCreate
    grid: Grid
    combinations: Sequence[Combination]
    told: Planned


async def plan(runtime: Runtime, asked: SweepAsked, metric: str) -> Plan:
    """Raises a SitrepError that says what is wrong with it; nothing is stored, nothing is started."""
    return await asyncio.to_thread(_plan, runtime, asked, metric)


def _plan(runtime: Runtime, asked: SweepAsked, metric: str) -> Plan:
    _check_benchmarks(asked)
    grid = grid_of(asked)
    found = trials_of(asked, grid)
    count = search.count_of(asked, len(found))
    with runtime.store.read() as db:
        base = template.body_of(db, asked.template, asked.caller or CallerIn())
        template.check_startable(_without_placeholders(base, found[0]))
        bodies = [_body(base, one, at) for at, one in enumerate(found[:_LISTED], 1)]
        seen = _starts(db, bodies[0], runtime.host_id)
    hardware = runtime.live.get("hardware") or LiveHardware()
    look = Look(runtime.store, hardware, runtime.settings.data_dir / "flags", runtime.host_id, flags_timeout_s=_FLAGS_S)
    against = [_against(body, look) for body in bodies[:_CHECKED]]
    if not asked.force:
        _refuse(found, against)
    trials = [
        PlannedTrial(
            name=one.label, baseline=one.baseline, settings=one.settings, command=_said(body),
            warnings=[check.text for check in (against[at] if at < len(against) else ())],
        )
        for at, (one, body) in enumerate(zip(found, bodies, strict=False))
    ]  # fmt: skip
    told = Planned(
        name=asked.name, count=count, launches=count, runs=count * sum(one.repeat for one in asked.benchmarks),
        metric=metric, search=asked.searching.method, choices=len(found), trials=trials, starts_seen=len(seen),
        start_s=round(sum(seen) / len(seen), 1) if seen else None,
    )  # fmt: skip
    return Plan(asked, base, grid, found, told)


def _without_placeholders(base: LaunchCreate, one: Combination) -> LaunchCreate:
    return template.trial_body(base, one.settings, "W0-0")


def _body(base: LaunchCreate, one: Combination, at: int) -> LaunchCreate:
    """The sweep has no number yet, which its logs will be named by."""
    try:
        return template.trial_body(base, one.settings, f"Wn-{at}", one.label)
    except SitrepError as error:
        raise InvalidFact(f"Trial {one.label}: {error.detail}") from error


def _check_benchmarks(asked: SweepAsked) -> None:
    names = [one.name for one in asked.benchmarks]
    if len(names) > 1 and (None in names or len(set(names)) < len(names)):
        raise InvalidFact("benchmarks: each of several wants a name of its own.")
    for one in asked.benchmarks:
        presets.preset(one.preset)
        if one.tool == "command" and not one.flags:
            raise InvalidFact("benchmarks: a command wants its words in flags.")


def _against(body: LaunchCreate, look: Look) -> list[Check]:
    subject = described(plan_launch(body.model_copy(update={"force": True})), look.hardware)
    return [check for kind in _CHECKS for check in kind(subject, look) if check.level in ("error", "warning")]


def _refuse(found: Sequence[Combination], against: Sequence[Sequence[Check]]) -> None:
    """A trial that the checks say cannot start is no part of a sweep."""
    wrong = [
        (one, check) for one, checks in zip(found, against, strict=False) for check in checks if check.level == "error"
    ]
    if wrong:
        one, check = wrong[0]
        trials = len({id(bad) for bad, _ in wrong})
        more = f" {trials} of {len(found)} trials cannot start." if trials > 1 else ""
        fix = f" {check.fix}" if check.fix else ""
        raise InvalidFact(
            f"Trial {one.label}: {check.text}{fix}{more} A constraint leaves it out; --force tries it anyway.",
            errors=[{"field": bad.label, "message": fault.text} for bad, fault in wrong[:20]],
        )


def _said(body: LaunchCreate) -> str:
    if body.command:
        return redact.redact_command(body.command)
    told = {name: (body.env or {}).get(name, "") for name in body.told_env or ()}
    return command_line(None, redact.redact_argv(body.argv or []), redact.redact_env(told)) or ""


def _starts(db: Session, body: LaunchCreate, host_id: int | None) -> list[float]:
    """How long the last starts of the same model took on this host until they were ready."""
    facts = plan_launch(body.model_copy(update={"force": True}))
    return starts_of(db, facts.engine.name, body.model or facts.facts.model_path, host_id)


def starts_of(db: Session, engine: str | None, model: str | None, host_id: int | None) -> list[float]:
    query = select(Launch.started_at, Launch.ready_at).where(
        col(Launch.engine) == engine, col(Launch.model).is_not_distinct_from(model),
        col(Launch.host_id).is_not_distinct_from(host_id), col(Launch.started_at).is_not(None),
        col(Launch.ready_at).is_not(None),
    )  # fmt: skip
    rows = db.exec(query.order_by(col(Launch.id).desc()).limit(_EARLIER)).all()
    return [(ready - began).total_seconds() for began, ready in rows if began is not None and ready is not None]


def known_secrets(caller_env: Mapping[str, str] | None) -> dict[str, str]:
    """Where secrets of the trials are looked for: with the one who asked, then in the daemon's environment."""
    return {**own_environment(), **(caller_env or {})}
