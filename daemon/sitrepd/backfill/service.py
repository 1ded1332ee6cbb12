"""Facts that were read from files become rows, each once, and follow their file when it has grown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlmodel import Session, col, select

from sitrepd import facts, redact
from sitrepd.backfill import models as m
from sitrepd.backfill.conversations import Conversations, scope_of
from sitrepd.backfill.found import FIGURES, figures
from sitrepd.backfill.models import Backfilled, BackfillIn, Settled
from sitrepd.benchmarks.models import Benchmark, BenchmarkMetric
from sitrepd.facts import Noun, Scope
from sitrepd.findings.models import Finding
from sitrepd.hardware.models import Host, HostCreate
from sitrepd.launches.models import Launch, LaunchSize
from sitrepd.slices import Registry
from sitrepd.storage import events, ids

T = TypeVar("T", bound=m.Told)
_NEAR = timedelta(minutes=3)
_MOST_EVIDENCE = 200
_OBSERVED_OF_LAUNCH = ("started_at", "settings", "warnings", "throughput", "timings", "failure")
# What a person may have said of a backfilled launch stays; what the log says of it follows the log.
_OF_THE_LOG = ("state", "ready_at", "ended_at", "port", "phases", "model", "draft_model")


class Keeper:
    """Works in the caller's transaction, for one session."""

    def __init__(self, db: Session, registry: Registry, session_id: int, host_id: int | None) -> None:
        self._db, self._registry, self._session_id, self._host_id = db, registry, session_id, host_id

    def take_in(self, told: BackfillIn) -> list[Settled]:
        host = self._host(told)
        settled = [self._settle("launch", one, self._make_launch(host), self._change_launch) for one in told.launches]
        settled += [
            self._settle("benchmark", one, self._make_benchmark, self._change_benchmark) for one in told.benchmarks
        ]
        settled += [self._settle("training", one, self._make, self._change_training) for one in told.trainings]
        settled += [self._settle("finding", one, self._make_finding, self._change_finding) for one in told.findings]
        said = Conversations(self._db, self._registry, self._session_id, host)
        settled += [self._settle("message", one, said.make_message, said.change_nothing) for one in told.messages]
        for one in told.commands:
            runs = [kept.fact_id for key in one.results if (kept := self._kept(key)) and kept.word == "benchmark"]
            settled.append(self._settle("command", one, partial(said.make_command, runs), said.change_command))
        return settled

    def _settle(
        self, word: str, told: T, make: Callable[[Noun, T], tuple[Any, bool]], change: Callable[[Noun, Any, T], None]
    ) -> Settled:
        noun = self._registry.by_word[word]
        digest = _digest(told)
        kept = self._kept(told.key)
        row = self._db.get(noun.table, kept.fact_id) if kept is not None and kept.word == word else None
        if kept is not None and row is not None:
            if isinstance(row, Launch) and row.watched:
                return Settled(key=told.key, id=noun.public_id(row.id), outcome="observed")
            if kept.digest == digest:
                return Settled(key=told.key, id=noun.public_id(row.id), outcome="known")
            change(noun, row, told)
            kept.digest, kept.path = digest, redact.redact_text(told.path)
            self._db.add(kept)
            self._db.flush()
            return Settled(key=told.key, id=noun.public_id(row.id), outcome="updated")
        row, is_new = make(noun, told)
        if kept is None:
            kept = Backfilled(session_id=self._session_id, key=told.key, digest="", word=word, fact_id=0, path="")
        kept.digest, kept.word, kept.fact_id, kept.path = digest, word, row.id, redact.redact_text(told.path)
        self._db.add(kept)
        self._db.flush()
        watched = word == "launch" and not is_new
        outcome: Any = "new" if is_new else "observed" if watched else "known"
        return Settled(key=told.key, id=noun.public_id(row.id), outcome=outcome)

    def _kept(self, key: str) -> Backfilled | None:
        query = select(Backfilled).where(Backfilled.key == key, Backfilled.session_id == self._session_id)
        return self._db.exec(query).first()

    def _scope(self, path: str) -> Scope:
        return scope_of(self._registry, self._session_id, path)

    def _make(self, noun: Noun, told: Any) -> tuple[Any, bool]:
        return facts.tell(self._db, noun, told.fact, self._scope(told.path)), True

    # --- launches ------------------------------------------------------------------------------------------------

    def _make_launch(self, host: int | None) -> Callable[[Noun, m.ToldLaunch], tuple[Launch, bool]]:
        def make(noun: Noun, told: m.ToldLaunch) -> tuple[Launch, bool]:
            observed = self._observed(told)
            if observed is not None:
                return observed, False
            row, _ = self._make(noun, told)
            row.host_id = row.host_id or host
            self._write_log(row, told)
            return row, True

        return make

    def _observed(self, told: m.ToldLaunch) -> Launch | None:
        """The launch that the daemon has watched itself, which wrote this log."""
        query = select(Launch).where(col(Launch.watched).is_(True))
        seed = (told.settings or {}).get("random_seed")
        for row in self._db.exec(query.where(Launch.log_path == told.fact.log_path)).all():
            drawn = (row.settings or {}).get("random_seed")
            if seed is not None and drawn is not None:
                if seed == drawn:
                    return row
            elif told.started_at and row.started_at and abs(told.started_at - row.started_at) < _NEAR:
                return row
        return None

    def _change_launch(self, noun: Noun, row: Launch, told: m.ToldLaunch) -> None:
        values = {name: getattr(told.fact, name) for name in _OF_THE_LOG}
        if row.command is None and not row.argv:
            values |= {name: getattr(told.fact, name) for name in ("command", "argv", "env", "cwd")}
        scope = self._scope(told.path)
        facts.update(self._db, noun, row, _Changes(values), scope)
        row.observed_at = told.fact.observed_at or row.observed_at
        self._write_log(row, told)

    def _write_log(self, row: Launch, told: m.ToldLaunch) -> None:
        for name in _OBSERVED_OF_LAUNCH:
            value = getattr(told, name)
            setattr(row, name, value if isinstance(value, datetime) else redact.redact_json(value))
        for old in self._db.exec(select(LaunchSize).where(LaunchSize.launch_id == row.id)).all():
            self._db.delete(old)
        for size in told.sizes:
            self._db.add(LaunchSize(launch_id=row.id or 0, **redact.redact_json(size.model_dump())))
        self._db.add(row)

    # --- benchmarks ----------------------------------------------------------------------------------------------

    def _make_benchmark(self, noun: Noun, told: m.ToldBenchmark) -> tuple[Benchmark, bool]:
        known = self._db.exec(
            select(Benchmark).where(Benchmark.digest == told.key, Benchmark.session_id == self._session_id)
        ).first() or self._same_figures(told)
        if known is not None:
            self._change_benchmark(noun, known, told)
            return known, False
        row, _ = self._make(noun, told)
        row.digest = told.key
        row.launch_id = self._launch_of(told)
        self._db.add(row)
        if (key := figures(told.fact.metrics or {})) is not None:
            self._by_figures.setdefault(key, row.id)
        return row, True

    def _same_figures(self, told: m.ToldBenchmark) -> Benchmark | None:
        """A stored run of which this is what its tool has printed, with fewer digits."""
        wanted = figures(told.fact.metrics or {})
        number = None if wanted is None else self._by_figures.get(wanted)
        return None if number is None else self._db.get(Benchmark, number)

    @cached_property
    def _by_figures(self) -> dict[tuple[str, ...], int]:
        """The oldest run with these figures; read once, since a project has runs by the thousand."""
        run, metric = col(Benchmark.id), BenchmarkMetric
        query = select(run, metric.name, metric.text).join(metric, col(metric.benchmark_id) == run)
        query = query.where(Benchmark.session_id == self._session_id, col(metric.name).in_(FIGURES)).order_by(run)
        told: dict[int, dict[str, Any]] = {}
        for number, name, text in self._db.exec(query).all():
            told.setdefault(number or 0, {})[name] = {"value": text}
        found: dict[tuple[str, ...], int] = {}
        for number, metrics in told.items():
            if (key := figures(metrics)) is not None:
                found.setdefault(key, number)
        return found

    def _change_benchmark(self, noun: Noun, row: Benchmark, told: m.ToldBenchmark) -> None:
        """What was measured does not change; which launch it was on may have become certain."""
        launch = self._launch_of(told)
        if row.launch_id is not None or launch is None:
            return
        row.launch_id = launch
        self._db.add(row)
        events.record(self._db, "benchmark.changed", noun.public_id(row.id), row.session_id, fields=["launch"])

    def _launch_of(self, told: m.ToldBenchmark) -> int | None:
        """By the key of a launch of this backfill, else the one stored launch that drew the seed."""
        kept = self._kept(told.launch) if told.launch else None
        if kept is not None and kept.word == "launch":
            return kept.fact_id
        if told.random_seed is None:
            return None
        drawn = self._by_seed.get(told.random_seed, [])
        return drawn[0] if len(drawn) == 1 else None

    @cached_property
    def _by_seed(self) -> dict[Any, list[int]]:
        """The session's launches by the seed that they drew; complete, since benchmarks are taken in after them."""
        found: dict[Any, list[int]] = {}
        query = select(col(Launch.id), Launch.settings).where(Launch.session_id == self._session_id)
        for number, settings in self._db.exec(query).all():
            seed = (settings or {}).get("random_seed")
            if isinstance(seed, int):
                found.setdefault(seed, []).append(number or 0)
        return found

    # --- training runs and findings ------------------------------------------------------------------------------

    def _change_training(self, noun: Noun, row: Any, told: m.ToldTraining) -> None:
        facts.update(self._db, noun, row, _Changes({"points": told.fact.points}), self._scope(told.path))
        row.observed_at = told.fact.observed_at or row.observed_at

    def _make_finding(self, noun: Noun, told: m.ToldFinding) -> tuple[Any, bool]:
        """Of a launch that the daemon has watched, the finding is the daemon's own."""
        told = told.model_copy(update={"fact": told.fact.model_copy(update={"evidence": self._evidence(told, [])})})
        return self._make(noun, told)

    def _change_finding(self, noun: Noun, row: Finding, told: m.ToldFinding) -> None:
        """More starts have failed of it; what somebody has made of it since stays."""
        evidence = self._evidence(told, row.evidence)
        if evidence != row.evidence:
            facts.update(self._db, noun, row, _Changes({"evidence": evidence}), self._scope(told.path))

    def _evidence(self, told: m.ToldFinding, before: Sequence[str]) -> list[str]:
        launch = self._registry.by_word["launch"]
        named = [launch.public_id(kept.fact_id) for key in told.launches if (kept := self._kept(key))]
        parsed = {one: ids.parse_id(one) for one in before}
        launches = [one for one in before if (place := parsed[one]) and place[0] == launch.prefix]
        others = [one for one in before if one not in launches] or list(told.fact.evidence)
        launches += [one for one in named if one not in launches]
        return [*launches, *others][:_MOST_EVIDENCE]

    # --- where it ran --------------------------------------------------------------------------------------------

    def _host(self, told: BackfillIn) -> int | None:
        """This machine where the files lie on it, else the one of that name, which is made if need be."""
        if told.machine:
            found = self._db.exec(select(Host).where(Host.machine == told.machine)).first()
            if found is not None:
                return found.id
        if not told.host:
            return None
        named = self._db.exec(select(Host).where(Host.name == told.host).order_by(col(Host.id))).all()
        own = next((host for host in named if host.id == self._host_id), None)
        if own is not None and not told.machine:
            return own.id
        other = next((host for host in named if host.machine in (None, told.machine)), None)
        if other is not None:
            return other.id
        scope = Scope(self._registry, "told:backfill")
        row: Host = facts.create(self._db, self._registry.by_word["host"], HostCreate(name=told.host), scope)
        return row.id


class _Changes(BaseModel):
    """Validated values under the names of the fields that they change, as `facts.update` wants them."""

    model_config = {"extra": "allow"}

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(**values)


def _digest(told: BaseModel) -> str:
    return hashlib.sha256(told.model_dump_json(exclude={"path"}).encode()).hexdigest()
