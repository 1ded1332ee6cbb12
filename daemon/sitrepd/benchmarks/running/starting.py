"""From a job's next run to its process: the server once it is ready, the call of the tool, and what that runs in."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from sitrepd.benchmarks.running import counters, during, prepare, rows, tools
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.folder import PRINTED, note_call
from sitrepd.benchmarks.running.job import Job, RunFailed
from sitrepd.benchmarks.running.models import BenchmarkJob
from sitrepd.benchmarks.running.prepare import Prepared
from sitrepd.benchmarks.running.target import must_be_ready
from sitrepd.benchmarks.running.turns import Turns
from sitrepd.clock import utc_now
from sitrepd.errors import InvalidFact
from sitrepd.launches.launchers.base import Launched, LaunchError, LaunchRequest
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.launches.repeat import around
from sitrepd.redact import is_secret_name

_LAUNCH_EVERY_S = 1.0


async def adopted(job: Job, row: BenchmarkJob) -> Launched | None:
    """The process that an earlier daemon has started in its folder; None where it had not come to that."""
    folder = Path(row.folder or "")
    try:
        return await asyncio.to_thread(job.launcher.adopt, folder)
    except LaunchError as error:
        if error.kind == "state_folder":
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            return None
        raise _not_started(error) from error


async def start(job: Job, row: BenchmarkJob, turns: Turns) -> Launched:
    """Its present run, once the server is ready; where it is stands in its row before there is a process."""
    ready = await _ready(job, row, turns)
    folder = job.folder(row)
    wanted = tools.Wanted(
        ready.target, ready.preset, _words(job.asked, ready), folder, warming=row.run == 0,
        repeated=job.asked.repeat > 1, own_warmup=job.asked.warmup is not False, help=ready.help,
    )  # fmt: skip
    call = tools.call(job.asked.tool, wanted)
    if row.run and job.asked.tool in tools.KEEP_THE_CACHE and ready.target.engine == "sglang":
        await asyncio.to_thread(counters.flush, ready.target)
    before = await asyncio.to_thread(counters.read, ready.target, during.log_of(ready.launch))
    await asyncio.to_thread(note_call, folder, call)
    await job.runtime.store.write_async(lambda db: rows.begin_run(db, job.number, str(folder), before))
    job.progress.begin(call.requests)
    try:
        return await asyncio.to_thread(job.launcher.launch, _request(job.asked, ready, call, folder))
    except LaunchError as error:
        raise _not_started(error) from error


def _not_started(error: LaunchError) -> RunFailed:
    return RunFailed(f"It could not be started: {error.detail}")


async def _ready(job: Job, row: BenchmarkJob, turns: Turns) -> Prepared:
    """The server, once it is ready and those it takes turns with are; raises Conflict where it is not in time."""
    while True:
        launch = job.launch(row)
        waited = (utc_now() - row.created_at).total_seconds()
        others = await asyncio.to_thread(turns.launches, row)
        if waited >= job.asked.wait_s or not (_comes(launch) or any(_comes(one) for one in others)):
            break
        await job.stop.pause(_LAUNCH_EVERY_S)
    must_be_ready(launch)
    return await asyncio.to_thread(prepare.prepared, job.runtime, job.asked, launch)


def _comes(launch: Launch) -> bool:
    """Whether it may yet be ready."""
    return launch.watched and launch.ended_at is None and launch.state in ALIVE and launch.state != "ready"


def _words(asked: BenchAsked, ready: Prepared) -> list[str]:
    """The flags with their secrets: after a daemon has died, those that stand in this one's environment."""
    return [_resolved(word, ready.target.launch) for word in asked.flags]


def _request(asked: BenchAsked, ready: Prepared, call: tools.Call, folder: Path) -> LaunchRequest:
    cwd = Path(asked.cwd or ready.target.cwd)
    told = {name: _resolved(value, name) for name, value in _env(asked, ready, call).items()}
    return LaunchRequest(
        state_dir=folder,
        log_path=folder / PRINTED,
        cwd=cwd if cwd.is_dir() else folder,
        env={**told, "PYTHONUNBUFFERED": "1"},
        argv=list(call.argv),
    )


def _env(asked: BenchAsked, ready: Prepared, call: tools.Call) -> Mapping[str, str]:
    """What Sitrep tells a command stands whatever was asked for; for a tool, what was asked for wins."""
    own = asked.env or {}
    return {**ready.target.around(own), **call.env} if asked.tool == "command" else {**call.env, **own}


def _resolved(text: str, what: str) -> str:
    """`${NAME}` of a secret, which a daemon that took the job up can only have from its own environment."""
    secrets = {name for name in around.references(text) if is_secret_name(name)}
    for name in sorted(secrets):
        if name not in os.environ:
            raise InvalidFact(f"The secret {name} of {what} is not stored, and the daemon's environment lacks it.")
    return around.filled([text], secrets, os.environ)[0]
