"""One benchmark job from its warm-up to its last repeat: starts each run's process, follows it, takes in its result."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd.benchmarks import originals
from sitrepd.benchmarks.parsers import BenchmarkFileError
from sitrepd.benchmarks.running import counters, during, measured, prepare, rows, tools
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.counters import Reading
from sitrepd.benchmarks.running.flags import asks_port
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.prepare import Prepared
from sitrepd.benchmarks.running.progress import read_progress
from sitrepd.benchmarks.running.target import find_target, must_be_ready
from sitrepd.benchmarks.running.turns import Turns
from sitrepd.clock import utc_now
from sitrepd.errors import InvalidFact, SitrepError
from sitrepd.facts import Scope
from sitrepd.launches.launchers.base import Exit, Launched, LaunchError, LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.redact import redact_argv, redact_env
from sitrepd.runtime import Runtime
from sitrepd.storage import ids

_LOOK_S = 0.2
_LAUNCH_EVERY_S = 1.0
_KEEP_EVERY_S = 5.0
_TIMEOUT_S = 7200.0
_GRACE_S = 5.0
_SERVER_GONE_S = 3.0
_CALL = "call.json"


class Stopped(Exception):
    """Somebody has asked for its end."""


class RunFailed(SitrepError):
    """A run that gave no result; `state` is failed or lost."""

    title = "The benchmark failed"


class Work:
    """`progress` is what the present run has done; `measures` is true while a process of it runs."""

    def __init__(
        self, runtime: Runtime, launcher: LocalLauncher, turns: Turns, number: int, asked: BenchAsked, *, stopping: bool
    ) -> None:
        self.runtime = runtime
        self.progress: tuple[int | None, int | None] = (None, None)
        self.measures = False
        self._launcher = launcher
        self._turns = turns
        self._number = number
        self._asked = asked
        self._stop = asyncio.Event()
        self._others: set[str] = set()
        if stopping:
            self._stop.set()

    def stop(self) -> None:
        self._stop.set()

    async def stopped(self) -> None:
        """Until somebody asks for its end."""
        await self._stop.wait()

    async def do(self) -> None:
        """All that is left to do; raises Stopped, or a SitrepError that says why it cannot be done."""
        row = self._row()
        while row.run <= self._asked.repeat:
            await self._turn(row)
            await self._run(row)
            row = self._row()

    async def _turn(self, row: BenchmarkJob) -> None:
        """Until it is the turn of this job: of one that has a process it is. Raises Stopped."""
        while not row.folder and not await asyncio.to_thread(self._turns.has, row):
            await self._pause(_LOOK_S)

    def _row(self) -> BenchmarkJob:
        with self.runtime.store.read() as db:
            row = rows.job(db, self._number)
        if row is None:
            raise RunFailed("The job is no longer stored.")
        return row

    # --- one run -------------------------------------------------------------------------------------------------

    async def _run(self, row: BenchmarkJob) -> None:
        launched = await self._adopted(row) if row.folder else None
        if launched is None:
            if self._stop.is_set():
                raise Stopped
            launched = await self._start(row)
            row = self._row()
        self.measures = True
        try:
            ended = await self._follow(launched, row)
        finally:
            self.measures = False
        await self._settle(row, ended)
        self.progress = (None, None)

    async def _adopted(self, row: BenchmarkJob) -> Launched | None:
        """The process that an earlier daemon has started in this folder; None where it had not come to that."""
        folder = Path(row.folder or "")
        try:
            return await asyncio.to_thread(self._launcher.adopt, folder)
        except LaunchError as error:
            if error.kind == "state_folder":
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                return None
            raise RunFailed(f"It could not be started: {error.detail}") from error

    async def _start(self, row: BenchmarkJob) -> Launched:
        ready = await self._ready(row)
        folder = self._folder(row)
        wanted = tools.Wanted(
            ready.target, ready.preset, self._words(ready), folder, warming=row.run == 0,
            repeated=self._asked.repeat > 1, own_warmup=self._asked.warmup is not False, help=ready.help,
        )  # fmt: skip
        call = tools.call(self._asked.tool, wanted)
        if row.run and self._asked.tool in tools.KEEP_THE_CACHE and ready.target.engine == "sglang":
            await asyncio.to_thread(counters.flush, ready.target)
        before = await asyncio.to_thread(counters.read, ready.target, _log_of(ready.launch))
        await asyncio.to_thread(_note_call, folder, call)
        number = self._number
        await self.runtime.store.write_async(lambda db: rows.begin_run(db, number, str(folder), before))
        self.progress, self._others = (None, call.requests), set()
        try:
            return await asyncio.to_thread(self._launcher.launch, self._request(ready, call, folder))
        except LaunchError as error:
            raise RunFailed(f"It could not be started: {error.detail}") from error

    async def _ready(self, row: BenchmarkJob) -> Prepared:
        """The server, once it is ready and those it takes turns with are; raises Conflict where it is not in time."""
        launch_id = ids.public_id("L", row.launch_id)
        while True:
            launch = prepare.read_launch(self.runtime, launch_id)
            waited = (utc_now() - row.created_at).total_seconds()
            others = await asyncio.to_thread(self._turns.launches, row)
            if waited >= self._asked.wait_s or not (_comes(launch) or any(_comes(one) for one in others)):
                break
            await self._pause(_LAUNCH_EVERY_S)
        must_be_ready(launch)
        return await asyncio.to_thread(prepare.prepared, self.runtime, self._asked, launch)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except TimeoutError:
            return
        raise Stopped

    def _folder(self, row: BenchmarkJob) -> Path:
        name = "warm-up" if row.run == 0 else f"run-{row.run}"
        return prepare.benchmarks_dir(self.runtime) / f"job-{self._number}" / name

    def _words(self, ready: Prepared) -> list[str]:
        """The flags with their secrets: after a daemon has died, those that stand in this one's environment."""
        return [_resolved(word, ready.target.launch) for word in self._asked.flags]

    def _request(self, ready: Prepared, call: tools.Call, folder: Path) -> LaunchRequest:
        own = self._asked.env or {}
        around = ready.target.around(own) if self._asked.tool == "command" else {**call.env, **own}
        env = {**around, **_extra(self._asked, call)}
        told = {name: _resolved(value, name) for name, value in env.items()}
        cwd = Path(self._asked.cwd or ready.target.cwd)
        return LaunchRequest(
            state_dir=folder,
            log_path=folder / "output.log",
            cwd=cwd if cwd.is_dir() else folder,
            env={**told, "PYTHONUNBUFFERED": "1"},
            argv=list(call.argv),
        )

    # --- following -----------------------------------------------------------------------------------------------

    async def _follow(self, launched: Launched, row: BenchmarkJob) -> Exit:
        """Until its process has ended; it is ended where it was asked to, takes too long, or its server is gone."""
        began = _at(row) or launched.started_at
        limit = self._asked.timeout_s or _TIMEOUT_S
        looked_at = kept_at = time.monotonic()
        while True:
            ended = await asyncio.to_thread(self._launcher.poll, launched)
            await self._look_at_bar(row)
            if ended is not None:
                return ended
            if self._stop.is_set():
                await self._kill(launched)
                raise Stopped
            if (utc_now() - began).total_seconds() > limit:
                await self._kill(launched)
                raise RunFailed(f"{self._which(row)} took longer than {limit:g} s, and was ended.")
            if time.monotonic() - looked_at > _LAUNCH_EVERY_S:
                looked_at = time.monotonic()
                await self._look_at_server(launched, row)
            if time.monotonic() - kept_at > _KEEP_EVERY_S:
                kept_at = time.monotonic()
                done, total = self.progress
                await self.runtime.store.write_async(lambda db: rows.progress(db, self._number, done, total))  # noqa: B023
            try:
                await asyncio.wait_for(self._stop.wait(), _LOOK_S)
            except TimeoutError:
                continue

    async def _look_at_bar(self, row: BenchmarkJob) -> None:
        done, total = await asyncio.to_thread(read_progress, Path(row.folder or "") / "output.log")
        self.progress = (done if done is not None else self.progress[0], total or self.progress[1])

    async def _look_at_server(self, launched: Launched, row: BenchmarkJob) -> None:
        launch = prepare.read_launch(self.runtime, ids.public_id("L", row.launch_id))
        self._look_for_others(launch.port)
        if launch.ended_at is None or (utc_now() - launch.ended_at).total_seconds() < _SERVER_GONE_S:
            return
        await self._kill(launched)
        why = f": {launch.failure}" if launch.failure else ""
        name = ids.public_id("L", launch.id or 0)
        raise RunFailed(f"{name} ended ({launch.state}) while it was measured{why}")

    def _look_for_others(self, port: int | None) -> None:
        """Benchmarks that somebody else runs against the same server."""
        own = str(prepare.benchmarks_dir(self.runtime))
        for one in self.runtime.live.get("benchmarks_running") or ():
            if port is not None and asks_port(one["argv"], port) and own not in " ".join(one["argv"]):
                self._others.add(f"another benchmark ran against the server meanwhile ({one['name']})")

    async def _kill(self, launched: Launched) -> None:
        """SIGTERM, and SIGKILL to all that is left of it."""
        await asyncio.to_thread(_end, self._launcher, launched)

    # --- its end -------------------------------------------------------------------------------------------------

    async def _settle(self, row: BenchmarkJob, ended: Exit) -> None:
        folder = Path(row.folder or "")
        try:
            await self._judge(row, ended, folder)
        except SitrepError:
            await asyncio.to_thread(_clean, folder)
            raise
        await asyncio.to_thread(_clean, folder, done=True)

    async def _judge(self, row: BenchmarkJob, ended: Exit, folder: Path) -> None:
        if ended.known and (ended.exit_code != 0 or ended.signal):
            launch = prepare.read_launch(self.runtime, ids.public_id("L", row.launch_id))
            raise RunFailed(await asyncio.to_thread(self._why_failed, row, ended, folder, launch))
        if row.run == 0:
            await self.runtime.store.write_async(lambda db: rows.warmed(db, self._number))
            return
        until = ended.ended_at or utc_now()
        await asyncio.to_thread(self._look_again, folder)
        await self._take_in(row, ended, folder, until)

    def _look_again(self, folder: Path) -> None:
        done, total = read_progress(folder / "output.log")
        self.progress = (done if done is not None else self.progress[0], total or self.progress[1])

    async def _take_in(self, row: BenchmarkJob, ended: Exit, folder: Path, until: datetime) -> None:
        launch = prepare.read_launch(self.runtime, ids.public_id("L", row.launch_id))
        try:
            found = await asyncio.to_thread(self._read, row, folder, launch)
        except BenchmarkFileError as error:
            said = await asyncio.to_thread(measured.said, folder)
            if not ended.known:
                raise RunFailed(f"{self._which(row)} is lost: {ended.reason}{said}", state="lost") from error
            raise RunFailed(f"{self._which(row)} left no result that can be read: {error.wrong}.{said}") from error
        runs, look, original = found
        held = await asyncio.to_thread(self._throttled, launch, _at(row) or until, until)
        marks = [*look.marks, *held, *sorted(self._others)]

        def job(db: Session) -> None:
            scope = Scope(self.runtime.registry, row.provenance, row.session_id)
            rows.progress(db, self._number, *self.progress)
            rows.store_run(db, scope, self._number, runs, marks, original)

        await self.runtime.store.write_async(job)
        self.runtime.activity.touch(row.session_id)

    def _throttled(self, launch: Launch, since: datetime, until: datetime) -> list[str]:
        with self.runtime.store.read() as db:
            return during.throttled(self.runtime, db, launch, since, until)

    def _read(self, row: BenchmarkJob, folder: Path, launch: Launch) -> tuple[Any, during.During, dict[str, Any]]:
        call = _call_of(folder)
        data, name = measured.result_in(Path(call.get("output") or folder / "result.jsonl"), folder / "output.log")
        name = f"benchmark job {row.id}, run {row.run}, {name}"
        mapping = prepare.read_mapping(self.runtime, self._asked.mapping) if self._asked.mapping else None
        parsed = measured.parse(data, name, mapping)
        look = self._look_back(row, launch)
        total = self.progress[1] if len(parsed) == 1 else None
        asked = {**row.asked, "told": call.get("workload") or {}}
        runs = [measured.completed(run, total, look, asked, launch.settings) for run in parsed]
        return runs, look, originals.keep(prepare.originals_dir(self.runtime), data, name)

    def _look_back(self, row: BenchmarkJob, launch: Launch) -> during.During:
        before = Reading.from_json(row.before)
        try:
            after = counters.read(find_target(launch), None)
        except SitrepError:
            after = Reading()
        return during.look_back(launch, before, after)

    def _why_failed(self, row: BenchmarkJob, ended: Exit, folder: Path, launch: Launch) -> str:
        how = f"was ended by signal {ended.signal}" if ended.signal else f"ended with exit status {ended.exit_code}"
        gone = f" {ids.public_id('L', launch.id or 0)} has ended ({launch.state})." if launch.ended_at else ""
        return f"{self._which(row)} {how}.{gone}{measured.said(folder)}"

    def _which(self, row: BenchmarkJob) -> str:
        if row.run == 0:
            return "The warm-up"
        return f"Run {row.run} of {self._asked.repeat}" if self._asked.repeat > 1 else "The run"


def _end(launcher: LocalLauncher, launched: Launched) -> None:
    launcher.signal(launched, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_S
    while launcher.poll(launched) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    launcher.kill(launched)


def _comes(launch: Launch) -> bool:
    """Whether it may yet be ready."""
    return launch.watched and launch.ended_at is None and launch.state in ALIVE and launch.state != "ready"


def _log_of(launch: Launch) -> str | None:
    return os.path.join(launch.cwd or "/", launch.log_path) if launch.log_path else None


def _at(row: BenchmarkJob) -> datetime | None:
    told = (row.before or {}).get("at")
    return datetime.fromisoformat(told) if told else None


def _extra(asked: BenchAsked, call: tools.Call) -> Mapping[str, str]:
    return call.env if asked.tool == "command" else {}


def _note_call(folder: Path, call: tools.Call) -> None:
    """What is run, for people and for the next daemon, which must know where the result will be."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = {
        "argv": redact_argv(list(call.argv)), "output": str(call.output), "env": sorted(redact_env(call.env)),
        "workload": dict(call.workload),
    }  # fmt: skip
    (folder / _CALL).write_text(json.dumps(told, indent=1))


def _call_of(folder: Path) -> Mapping[str, Any]:
    """As it was noted; an earlier daemon may have done that, or been ended before."""
    try:
        told = json.loads((folder / _CALL).read_text())
    except (OSError, ValueError):
        told = None
    return told if isinstance(told, dict) else {}


def _clean(folder: Path, *, done: bool = False) -> None:
    """What a tool has written may hold secrets; the result of a run that is `done` was kept without them elsewhere."""
    for path in [
        folder / "output.log",
        folder / tools.DIARY,
        *folder.glob("result.*"),
        *folder.glob("artifacts/**/*.json*"),
    ]:
        with suppress(OSError):
            if done and path.name != "output.log":
                path.unlink()
            else:
                path.write_bytes(originals.without_secrets(path.read_bytes()))


def _resolved(text: str, what: str) -> str:
    """`${NAME}` of a secret, which a daemon that took the job up can only have from its own environment."""
    from sitrepd.launches.repeat.around import references
    from sitrepd.redact import is_secret_name

    for name in references(text):
        if not is_secret_name(name):
            continue
        if name not in os.environ:
            raise InvalidFact(f"The secret {name} of {what} is not stored, and the daemon's environment lacks it.")
        text = text.replace("${" + name + "}", os.environ[name])
    return text
