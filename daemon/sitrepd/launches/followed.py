"""The launches that live: how each is watched, which processes are its own, and its moment."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from sitrepd.launches import stillness
from sitrepd.launches.discovery import adopt, heirs, inside
from sitrepd.launches.engines import base as e
from sitrepd.launches.estimate import Estimates
from sitrepd.launches.follow import LogPosition
from sitrepd.launches.launchers.base import Launched
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import ALIVE, Launch, LaunchPhase
from sitrepd.launches.processes import Stat, boot_id, process_tree
from sitrepd.launches.serving import Serving
from sitrepd.launches.watch import Outcome, Watch
from sitrepd.runtime import Runtime


class Followed:
    """`watches` and `live` are by the number of the launch."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._estimates = Estimates(runtime.store)
        self.watches: dict[int, Watch] = {}
        self.live: dict[int, LiveLaunch] = {}

    def begin(
        self,
        number: int,
        launched: Launched,
        engine: e.Engine,
        facts: e.CommandFacts,
        row: Launch,
        phases: Sequence[LaunchPhase] = (),
    ) -> None:
        """Watch it from now on, as its row says; one without phases is starting."""
        position = LogPosition.from_json(row.log_position) if row.log_position else None
        follower = adopt.follower(row, launched.logs[0].path if launched.logs else None, position)
        ready = row.ready_at is not None
        watch = Watch(number, launched, engine, facts, follower, row.parser_state, ready=ready)
        watch.readiness.may_disturb = lambda: not self._is_measured()
        watch.readiness.net_of = launched.identity.pid if (row.process or {}).get("container") else None
        _lead_to(watch, row)
        watch.resume(row.state if row.state in ALIVE else "starting", phases)
        watch.suspect, watch.stillness = row.suspect, stillness.of(self._runtime, self._estimates, watch)
        watch.serving = Serving(
            self._runtime.settings.suspect_after_s, watch.readiness.health, tells_the_end=engine.name == "vllm"
        )
        watch.serving.restore(row.throughput, time.monotonic(), row.suspect)
        if not phases:
            watch.open_phases["starting"] = launched.started_at
        self.watches[number] = watch
        self._estimates.begin(number)

    def note(self, watch: Watch, outcome: Outcome) -> None:
        """Its moment, as a look has found it."""
        self.live[watch.number] = self._estimates.live(watch, outcome)

    def end(self, number: int) -> None:
        """Watch it no more."""
        del self.watches[number]
        self.live.pop(number, None)
        self._estimates.end(number)

    def owners(self, stats: Mapping[int, Stat]) -> dict[int, int]:
        """The launch that each process belongs to, by pid; supervisors too."""
        found: dict[int, int] = {}
        for number, watch in self.watches.items():
            launched = watch.launched
            known = (watch.main,) if watch.main else ()
            found |= dict.fromkeys(process_tree(launched.identity, launched.supervisor, known, stats), number)
        return found

    def _is_measured(self) -> bool:
        """Whether a benchmark runs, by somebody or by us: then nothing is asked that makes a server generate."""
        jobs = self._runtime.live.get("benchmark_jobs")
        return bool(self._runtime.live.get("benchmarks_running")) or (jobs is not None and jobs.busy)


def _lead_to(watch: Watch, row: Launch) -> None:
    """To the process that serves, where that is not the one which was started, and to how it may be found."""
    told = (row.process or {}).get("main") or {}
    main = inside.main_of(row.process or {})
    if main is not None and main.pid != watch.launched.identity.pid and main.boot_id == boot_id():
        watch.main, watch.readiness.hidden = main, not told.get("readable", True)
        watch.readiness.net_of = main.pid if told.get("contained") else watch.readiness.net_of
    if watch.launched.supervisor is not None:
        watch.command = heirs.command_of(row.argv or (), row.command, row.cwd, watch)
