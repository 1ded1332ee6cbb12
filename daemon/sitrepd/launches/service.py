"""Launches: started, followed until they end, stopped, and taken up again by the next daemon."""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd.clock import iso, utc_now
from sitrepd.errors import Conflict
from sitrepd.facts import Scope, create
from sitrepd.launches import autopsy, retention, start, stillness, store, taken_up
from sitrepd.launches.discovery import adopt, heirs, inside
from sitrepd.launches.discovery.details import Details
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.engines import base as e
from sitrepd.launches.estimate import Estimates
from sitrepd.launches.examinations import Examinations
from sitrepd.launches.follow import LogPosition
from sitrepd.launches.launchers.base import Launched, LaunchError
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import ALIVE, Launch, LaunchCreate, LaunchPhase, LaunchRecord
from sitrepd.launches.processes import Stat, boot_id, process_tree
from sitrepd.launches.serving import Serving
from sitrepd.launches.start import Plan
from sitrepd.launches.stop import StopLadder
from sitrepd.launches.watch import Outcome, Watch, step_all
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import events, ids

log = logging.getLogger(__name__)
_SEEK_S = 0.5
_YOUNG_S = 30.0


class Launches(Service):
    """Owns all watched launches of this host; `runtime.live["launches"]` says what they do at the moment."""

    name = "launches"

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.launcher = LocalLauncher()
        self.live: dict[int, LiveLaunch] = {}
        self._watches: dict[int, Watch] = {}
        self._stops: dict[int, StopLadder] = {}
        self._starting: set[int] = set()
        self._handovers: dict[int, heirs.Handover] = {}
        self._seeking: set[asyncio.Task[None]] = set()
        self.restored = asyncio.Event()
        self._examinations = Examinations(runtime)
        self._estimates = Estimates(runtime.store)
        runtime.live["launches"] = self.live
        runtime.live["launch_service"] = self

    async def run(self) -> None:
        """Take up what earlier daemons started, then look at every launch again and again."""
        if not self.restored.is_set():
            await self._restore()
            self.restored.set()
        retention.schedule(self.runtime)
        pause = self.runtime.settings.log_poll_s
        async with self._completing():
            while True:
                behind = await self._look_at_all()
                await asyncio.sleep(0 if behind else pause)

    @asynccontextmanager
    async def _completing(self) -> AsyncIterator[None]:
        """Meanwhile, what an earlier daemon has begun is carried out; nothing else waits for it."""
        from sitrepd.launches.repeat.restart import complete

        jobs = (complete(self.runtime), self._examinations.of_what_is_left_over())
        tasks = [asyncio.create_task(_logged(job), name="sitrep-left-over") for job in jobs]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # --- starting ------------------------------------------------------------------------------------------------

    async def start(self, body: LaunchCreate, session_id: int | None, provenance: str, given: int | None = None) -> int:
        """Start a server and watch it; its number, which may be given. Nothing is left behind when it could not be
        started."""
        try:
            plan = await asyncio.to_thread(start.plan, body)
        except Conflict as refused:
            raise self._with_holder(refused) from refused
        number = given
        if number is None:
            number = await self.runtime.store.write_async(lambda db: ids.allocate(db, "launch"))
        self._starting.add(number)
        try:
            return await self._start(plan, number, session_id, provenance)
        finally:
            self._starting.discard(number)

    def _with_holder(self, refused: Conflict) -> Conflict:
        """A taken port, with the launch that has it."""
        port = refused.extra.get("port")
        for number, watch in self._watches.items():
            if port is not None and watch.facts.port == port and not watch.port_taken:
                holder = ids.public_id("L", number)
                more = {**refused.extra, "launch": holder}
                return Conflict(f"{refused.detail} That is {holder}: `sitrep stop {holder}` ends it.", **more)
        return refused

    async def _start(self, plan: Plan, number: int, session_id: int | None, provenance: str) -> int:
        state_dir = self.runtime.settings.launches_dir / ids.public_id("L", number)
        request = plan.request(state_dir)
        columns = plan.columns(request)
        try:
            start.remember(columns, state_dir, session_id, provenance, plan.body)
            launched = await asyncio.to_thread(self.launcher.launch, request)
        except Exception:
            await asyncio.to_thread(shutil.rmtree, state_dir, ignore_errors=True)
            raise
        row = await self.runtime.store.write_async(
            lambda db: self._insert(db, number, columns, launched, session_id, provenance)
        )
        self._watch(number, launched, plan.engine, plan.facts, row)
        return number

    def _insert(
        self,
        db: Session,
        number: int,
        columns: dict[str, Any],
        launched: Launched,
        session_id: int | None,
        provenance: str,
    ) -> Launch:
        """The row of a process that was started, whether just now or by a daemon that died before it could store it."""
        scope = Scope(self.runtime.registry, provenance, session_id)
        told = {name: columns[name] for name in ("model", "draft_model", "from_launch") if columns.get(name)}
        record = LaunchRecord(at=launched.started_at, **told)
        row: Launch = create(db, self.runtime.registry.by_word["launch"], record, scope, number)
        for name, value in columns.items():
            if name not in told:
                setattr(row, name, value)
        row.host_id = self.runtime.host_id
        row.log_path = str(launched.logs[0].path) if launched.logs else None
        row.state, row.watched = "starting", True
        row.started_at = launched.started_at
        row.process = (columns.get("process") or {}) | start.process_columns(launched) | autopsy.begin_of(columns)
        row.warnings = list(launched.warnings)
        db.add(LaunchPhase(launch_id=number, name="starting", started_at=launched.started_at))
        db.add(row)
        return row

    def _watch(
        self,
        number: int,
        launched: Launched,
        engine: e.Engine,
        facts: e.CommandFacts,
        row: Launch,
        phases: Sequence[LaunchPhase] = (),
    ) -> None:
        position = LogPosition.from_json(row.log_position) if row.log_position else None
        follower = adopt.follower(row, launched.logs[0].path if launched.logs else None, position)
        ready = row.ready_at is not None
        watch = Watch(number, launched, engine, facts, follower, row.parser_state, ready=ready)
        watch.readiness.may_disturb = lambda: not self._is_measured()
        watch.readiness.net_of = launched.identity.pid if (row.process or {}).get("container") else None
        self._lead_to(watch, row)
        watch.resume(row.state if row.state in ALIVE else "starting", phases)
        watch.suspect, watch.stillness = row.suspect, stillness.of(self.runtime, self._estimates, watch)
        watch.serving = Serving(
            self.runtime.settings.suspect_after_s, watch.readiness.health, tells_the_end=engine.name == "vllm"
        )
        watch.serving.restore(row.throughput, time.monotonic())
        if not phases:
            watch.open_phases["starting"] = launched.started_at
        self._watches[number] = watch
        self._estimates.begin(number)

    def _lead_to(self, watch: Watch, row: Launch) -> None:
        """To the process that serves, where that is not the one which was started, and to how it may be found."""
        told = (row.process or {}).get("main") or {}
        main = inside.main_of(row.process or {})
        if main is not None and main.pid != watch.launched.identity.pid and main.boot_id == boot_id():
            watch.main, watch.readiness.hidden = main, not told.get("readable", True)
            watch.readiness.net_of = main.pid if told.get("contained") else watch.readiness.net_of
        if watch.launched.supervisor is not None:
            watch.command = heirs.command_of(row.argv or (), row.command, row.cwd, watch)

    def _is_measured(self) -> bool:
        """Whether a benchmark runs, by somebody or by us: then nothing is asked that makes a server generate."""
        jobs = self.runtime.live.get("benchmark_jobs")
        return bool(self.runtime.live.get("benchmarks_running")) or (jobs is not None and jobs.busy)

    async def adopt(self, server: Server, details: Details) -> int:
        """Follow a server that somebody else has started, as a launch; its number."""
        position = await asyncio.to_thread(adopt.begin, details)
        row = await self.runtime.store.write_async(lambda db: adopt.insert(db, self.runtime, server, details, position))
        number = row.id or 0
        self._watch(number, adopt.launched(server, details), details.engine, details.facts, row)
        return number

    async def understand(self, number: int, server: Server, details: Details) -> None:
        """A script of ours has started this server: where nothing else is known of it, it is followed as that."""
        watch = self._watches.get(number)
        if watch is None:
            return
        if inside.is_script(watch):
            taken = await inside.taken(self.runtime.store, watch, server, details)
            if taken is not None:
                launched, row, phases = taken
                self._watch(number, launched, details.engine, replace(details.facts, port=row.port), row, phases)
        elif watch.launched.supervisor is not None and watch.main != server.main.identity:
            watch.main, watch.readiness.hidden = server.main.identity, not details.readable
            if details.container is not None:
                watch.readiness.net_of = server.main.pid
            await self.runtime.store.write_async(lambda db: inside.note(db, number, server, details))

    async def inherit(self, server: Server, details: Details, owner: int | None) -> bool:
        """Whether it belongs to a launch of ours that runs it elsewhere, or has ended and left it alone."""
        for number, one in list(self._handovers.items()):
            if number in self._stops or not await asyncio.to_thread(heirs.is_heir, one, server, details):
                continue
            if owner in (None, number):
                return await self._hand_over(number, one, server, details)
            one.heir = owner
        if owner is not None:
            return False
        if self._starting and (utc_now() - details.started_at).total_seconds() < _YOUNG_S:
            return True  # whose it is can only be told once the row is written
        for number, watch in list(self._watches.items()):
            command = watch.command if watch.main in (None, server.main.identity) else None
            if command is None or number in self._handovers:
                continue
            if heirs.stands_for(command, server, details):
                await self.understand(number, server, details)
                return True
        return False

    async def _hand_over(self, number: int, one: heirs.Handover, server: Server, details: Details) -> bool:
        taken = await inside.taken(self.runtime.store, one.watch, server, details, alone=True)
        if taken is None:
            return False
        launched, row, phases = taken
        self._handovers.pop(number, None)
        self._watch(number, launched, details.engine, replace(details.facts, port=row.port), row, phases)
        log.info("L%d is process %d, which what was started has left alone", number, server.main.pid)
        return True

    def followed(self) -> list[Watch]:
        """All launches that live."""
        return list(self._watches.values())

    def owners(self, stats: Mapping[int, Stat]) -> dict[int, int]:
        """The launch that each process of a followed launch belongs to, by pid; supervisors too."""
        found: dict[int, int] = {}
        for number, watch in self._watches.items():
            launched = watch.launched
            known = (watch.main,) if watch.main else ()
            found |= dict.fromkeys(process_tree(launched.identity, launched.supervisor, known, stats), number)
        for number, ladder in self._stops.items():
            found |= dict.fromkeys(ladder.tree(stats), number)
        return found

    def is_starting(self, number: int) -> bool:
        """Whether its process may run already, and its row not be written yet."""
        return number in self._starting

    # --- taking up again -----------------------------------------------------------------------------------------

    async def _restore(self) -> None:
        rows = await asyncio.to_thread(taken_up.watched, self.runtime.store)
        for row, phases in rows:
            if row.id in self._watches:
                continue
            try:
                await self._restore_row(row, phases)
            except Exception:  # the others are not to suffer for it
                log.exception("L%s cannot be taken up again", row.id)
        await self._restore_unstored()

    async def _restore_row(self, row: Launch, phases: Sequence[LaunchPhase]) -> None:
        process, number = row.process or {}, row.id or 0
        launched = start.launched_from(process, row.started_at)
        engine, facts = taken_up.engine_of(row)
        self._watch(number, launched, engine, facts, row, phases)
        if "stop_asked_at" in process:
            await self._begin_stop(number, process.get("stop_grace_s"))

    async def _restore_unstored(self) -> None:
        """A daemon may have died between the start of a process and the commit that tells of it."""
        for folder in sorted(self.runtime.settings.launches_dir.glob("L*")):
            parsed = ids.parse_id(folder.name)
            if parsed is None or not (folder / start.REQUEST_NAME).is_file():
                continue
            number = parsed[1]
            try:
                await self._restore_folder(folder, number)
            except (LaunchError, OSError, ValueError, KeyError) as error:
                log.debug("%s holds no launch: %s", folder, error)
            except Exception:
                log.exception("%s cannot be taken up", folder)

    async def _restore_folder(self, folder: Path, number: int) -> None:
        with self.runtime.store.read() as db:
            if number in self._starting or db.get(Launch, number) is not None:
                return
        told = json.loads((folder / start.REQUEST_NAME).read_text())
        launched = await asyncio.to_thread(self.launcher.adopt, folder)
        row = await self.runtime.store.write_async(
            lambda db: self._insert(db, number, told["columns"], launched, told["session_id"], told["provenance"])
        )
        engine, facts = taken_up.engine_of(row)
        self._watch(number, launched, engine, facts, row)

    # --- looking -------------------------------------------------------------------------------------------------

    async def _look_at_all(self) -> bool:
        due = [(number, watch) for number, watch in self._watches.items() if watch.is_due() or number in self._stops]
        quiet = [watch for _, watch in due if watch.is_quiet()]
        looked = await asyncio.to_thread(step_all, quiet) if quiet else {}
        steps = [(watch, looked[watch.number]) for watch in quiet if watch.number in looked]
        await asyncio.gather(*(self._settle(watch.number, watch, outcome) for watch, outcome in steps))
        behind = any(not outcome.caught_up for _, outcome in steps)
        for number, watch in due:
            if watch in quiet:
                continue
            found = await asyncio.to_thread(step_all, [watch])
            for outcome in found.values():
                behind = behind or not outcome.caught_up
                await self._settle(number, watch, outcome)
        await self._step_stops()
        return behind

    async def _step_stops(self) -> None:
        for number, ladder in list(self._stops.items()):
            try:
                if await asyncio.to_thread(ladder.step) == "stopped":
                    del self._stops[number]
            except Exception:
                log.exception("L%d cannot be stopped", number)

    def _is_handed_over(self, number: int, watch: Watch, outcome: Outcome) -> bool:
        """Whether what was started may have left a server alone, which is then looked for before the end is told."""
        one = heirs.handover(watch, outcome, stopped=watch.stopping) if outcome.exit is not None else None
        if one is None:
            return False
        self._handovers[number] = one
        watch.pause()
        task = asyncio.create_task(self._seek_heir(number, one))
        self._seeking.add(task)
        task.add_done_callback(self._seeking.discard)
        return True

    async def _seek_heir(self, number: int, one: heirs.Handover) -> None:
        discovery = self.runtime.live.get("discovery")
        while discovery is not None and not one.over and one.heir is None and number not in self._stops:
            await asyncio.sleep(_SEEK_S)
            await discovery.look()
            if self._handovers.get(number) is not one:
                return
        self._handovers.pop(number, None)
        one.tell()
        await self._settle(number, one.watch, one.outcome, final=True)

    async def _settle(self, number: int, watch: Watch, outcome: Outcome, *, final: bool = False) -> None:
        if watch.replaced or number in self._handovers or (not final and self._is_handed_over(number, watch, outcome)):
            return
        if outcome.worth_storing or outcome.became_ready or outcome.port_taken or outcome.exit:
            stopped = number in self._stops
            await self.runtime.store.write_async(lambda db: store.settle(db, number, watch, outcome, stopped=stopped))
        if outcome.exit is not None or outcome.port_taken:
            self._examinations.begin(number, outcome.exit, watch.facts)
        if outcome.exit is not None:
            del self._watches[number]
            self.live.pop(number, None)
            self._estimates.end(number)
            return
        self.live[number] = self._estimates.live(watch, outcome)

    # --- stopping ------------------------------------------------------------------------------------------------

    async def stop(self, number: int, grace_s: float | None) -> None:
        """Ask the server to end: SIGTERM to its main process, then SIGKILL to all that is left after `grace_s`."""
        # A daemon that has just started may not yet know what the one before it watched.
        await self.restored.wait()
        if number not in self._watches:
            raise Conflict(
                f"{ids.public_id('L', number)} does not run on this host, or is not watched: nothing to stop."
            )
        if number in self._stops:
            return
        # First what is meant, then the signal: a daemon that dies in between goes on with it when it is back.
        await self.runtime.store.write_async(lambda db: _record_stop(db, number, grace_s))
        await self._begin_stop(number, grace_s)

    async def _begin_stop(self, number: int, grace_s: float | None) -> None:
        watch = self._watches.get(number)
        if watch is None or number in self._stops:
            return
        watch.stopping = True
        steps = watch.engine.stop_signals
        ladder = StopLadder(self.launcher, watch.launched, grace_s if grace_s is not None else steps[0].grace_s)
        if watch.main is not None and not watch.readiness.hidden:
            ladder.knows(watch.main)
        self._stops[number] = ladder
        await asyncio.to_thread(ladder.ask)

    async def wait_ended(self, number: int, timeout_s: float) -> bool:
        """Whether the launch has ended, processes and all, within the time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while number in self._watches or number in self._stops:
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(0.05)
        return True


async def _logged(job: Coroutine[Any, Any, None]) -> None:
    try:
        await job
    except Exception:
        log.exception("what an earlier daemon has begun was not carried out")


def _record_stop(db: Session, number: int, grace_s: float | None) -> None:
    row = db.get(Launch, number)
    if row is not None:
        row.process = {**(row.process or {}), "stop_asked_at": iso(utc_now()), "stop_grace_s": grace_s}
        db.add(row)
        events.record(db, "launch.changed", ids.public_id("L", number), row.session_id, stop="asked")
