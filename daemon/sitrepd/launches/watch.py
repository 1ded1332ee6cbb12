"""One watched launch: reads its log as it grows, looks at its processes, and says what has changed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from sitrepd.clock import utc_now
from sitrepd.launches import beforehand, suspicion
from sitrepd.launches.course import Course
from sitrepd.launches.engines import base as e
from sitrepd.launches.follow import LogFollower
from sitrepd.launches.launchers.base import Exit, Launched, ProcessIdentity
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.processes import Stat, read_cwd, read_environ
from sitrepd.launches.readiness import Readiness
from sitrepd.launches.serving import Serving
from sitrepd.launches.states import ALIVE
from sitrepd.launches.stillness import Stillness

if TYPE_CHECKING:
    from sitrepd.launches.discovery.heirs import Command

log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.5
_READY_LOOK_EVERY_S = 2.0
_STEP_BYTES = 8 << 20
_MOST_EVENTS = 5000
_STEP_S = 0.2
_HOLD_PROGRESS_S = 1.0
_HOLD_FIGURES_S = 10.0
_READY_READ_EVERY_S = 2.0
_YOUNG_S = 15.0
_REST_S = 5.0


@dataclass
class Outcome:
    """What one look has found; `events` and `position` belong to one transaction."""

    events: list[e.LogEvent] = field(default_factory=list)
    state: str = ""
    became_ready: bool = False
    exit: Exit | None = None
    port_taken: bool = False
    log_problem: str | None = None
    position: dict[str, Any] | None = None
    parser_state: dict[str, Any] | None = None
    worth_storing: bool = False
    suspect_changed: bool = False
    only_figures: bool = False
    caught_up: bool = True


class Watch:
    """Not thread-safe: `step` is called by one thread at a time."""

    def __init__(
        self,
        number: int,
        launched: Launched,
        engine: e.Engine,
        facts: e.CommandFacts,
        follower: LogFollower,
        parser_state: dict[str, Any] | None = None,
        *,
        ready: bool = False,
    ) -> None:
        self.number = number
        self.launched = launched
        self.engine = engine
        self.facts = facts
        self.launcher = LocalLauncher()
        self.follower = follower
        if type(follower) is LogFollower:  # what a container engine has wrapped does not look like the engine's lines
            follower.skim = engine.skim
        self.parser = engine.parser(parser_state, tz=_zone(facts.timezone))
        self.ready = ready
        self.open_phases: dict[str, datetime] = {}
        self.ended_phases: list[str] = []
        self.progress: dict[str, e.PhaseProgress] = {}
        self.course = Course(began={"starting": launched.started_at})
        self.cold: bool | None = None
        self.weight_bytes: int | None = None
        self.readiness = Readiness(engine, facts)
        told = parser_state or {}
        self.port_taken = self.readiness.port_taken = bool(told.get("port_taken"))
        self.readiness.said_ready = bool(told.get("ready")) and not self.port_taken
        self.stillness: Stillness | None = None
        self.serving: Serving | None = None
        self.suspect: str | None = None
        self.main: ProcessIdentity | None = None
        """The process of it that serves, as discovery has seen it."""
        self.command: Command | None = None
        """What it has run, where that may have started a server elsewhere."""
        self.stopping = False
        """It was asked to end, and may have done so since."""
        self.replaced = False
        """Another watch has taken over: what this one finds counts no more."""
        self._asked_beforehand = False
        self._held: list[e.LogEvent] = []
        self._held_since = 0.0
        self._stepped_at = self._rests_until = 0.0
        self._behind = False
        self._reached: str = "starting"
        self._told_port_taken = False
        self._told_slow: set[str] = set()
        self._looked_at = 0.0

    def resume(self, state: str, phases: Sequence[Any]) -> None:
        """Take up again the state and the phases that the store knows of."""
        self._reached = state
        self.course.restore(phases)
        for row in phases:
            if row.ended_at is None and row.started_at is not None:
                self.open_phases[row.name] = row.started_at
            elif row.ended_at is not None:
                self.ended_phases.append(row.name)

    def rest(self) -> None:
        """After a look that failed, so that it does not fail again at once."""
        self._rests_until = time.monotonic() + _REST_S

    def is_due(self) -> bool:
        """The log of a server that is ready can wait a little longer."""
        if time.monotonic() < self._rests_until:
            return False
        return not self.ready or self._behind or time.monotonic() - self._stepped_at >= _READY_READ_EVERY_S

    def is_quiet(self) -> bool:
        """A step takes no time: nothing is to be asked, and there is little to read."""
        return self.ready and not self._behind

    def step(self) -> Outcome:
        """Look once, and return what is new; quick, but it reads files and may ask the server."""
        outcome = Outcome()
        self._stepped_at = time.monotonic()
        if not self._asked_beforehand:
            self._ask_beforehand()
        self._read(outcome)
        now = time.monotonic()
        if outcome.caught_up and (self._is_urgent() or now - self._looked_at >= self._pause_s()):
            self._looked_at = now
            self._look(outcome)
        outcome.state = self.state()
        self._behind = not outcome.caught_up
        if self.stillness is not None and outcome.caught_up:
            self._suspect(outcome, self.stillness)
        self._hold(outcome)
        if outcome.worth_storing:
            position = self.follower.position
            outcome.position = position.to_json() if position else None
            outcome.parser_state = self.parser.state()
        outcome.log_problem = self.follower.problem or None
        return outcome

    def tree(self) -> dict[int, Stat]:
        """Its living processes, that of a container too."""
        return self.launcher.tree(self.launched, (self.main,) if self.main else ())

    def pause(self) -> None:
        """Until another takes over, or its end is told."""
        self._rests_until = math.inf

    def state(self) -> str:
        """The state of a launch whose process lives."""
        if self.port_taken:
            return "failed"
        if self.ready:
            return "ready"
        phase = self.phase()
        if phase is not None:
            self._reached = max(self._reached, phase.state, key=ALIVE.index)
        return self._reached

    def phase(self) -> e.PhaseInfo | None:
        return e.current_phase(self.open_phases)

    def _ask_beforehand(self) -> None:
        """Of a young process only: an older one may have filled the caches itself."""
        self._asked_beforehand = True
        pid = self.launched.identity.pid
        self.weight_bytes = beforehand.weight_bytes(self.facts.model_path, read_cwd(pid))
        if (utc_now() - self.launched.started_at).total_seconds() < _YOUNG_S:
            self.cold = beforehand.kernels_are_cold(read_environ(pid) or {})

    def _is_urgent(self) -> bool:
        return self.readiness.said_ready and not self.ready

    def _pause_s(self) -> float:
        return _READY_LOOK_EVERY_S if self.ready else _LOOK_EVERY_S

    def _read(self, outcome: Outcome) -> None:
        """For a fraction of a second at most: others wait for their turn, and for the interpreter."""
        budget, until, grown = _STEP_BYTES, time.monotonic() + _STEP_S, False
        while budget > 0:
            lines = self.follower.read()
            grown = grown or bool(lines)
            seen_at = self._seen_at()
            for line in lines:
                outcome.events += self.parser.feed(line, seen_at)
            if self.follower.at_end:
                break
            budget -= 1 << 20
            if len(outcome.events) > _MOST_EVENTS or time.monotonic() > until:
                break
        outcome.caught_up = self.follower.at_end
        if grown and self.serving is not None:
            self.serving.moved(time.monotonic())
        self._note(outcome.events)
        if self.follower.partial:
            for event in self.parser.peek(self.follower.partial, self._seen_at()):
                if isinstance(event, e.PhaseProgress):
                    self.course.feed([event])
                    self.progress[event.phase] = event

    def _suspect(self, outcome: Outcome, stillness: Stillness) -> None:
        phase = self.phase()
        starts = not (self.ready or self.port_taken or outcome.exit) and phase is not None
        if starts and not stillness.is_due():
            return
        told = None
        if starts and phase:
            told = stillness.look(self, phase, self.tree())
            self._tell_slow(outcome, stillness.slow)
        elif self.ready and self.serving is not None and not outcome.exit:
            told = self._silence(self.serving)
        # The text tells how long, and is written anew only when it begins or ends.
        if (told is None) != (self.suspect is None):
            self.suspect, outcome.suspect_changed, outcome.worth_storing = told, True, True

    def _tell_slow(self, outcome: Outcome, told: str | None) -> None:
        """Once for a phase: it becomes a warning of the launch."""
        if told is not None and told not in self._told_slow:
            self._told_slow.add(told)
            outcome.events.append(e.Warned(at=utc_now(), what="slow_load", text=told))

    def _silence(self, serving: Serving) -> str | None:
        told = serving.look(time.monotonic(), self.readiness.may_disturb)
        if told is None or self.suspect is not None or serving.died:
            return told
        ranks = suspicion.ranks(self.tree(), self.launched.identity.pid)
        return f"{told} {suspicion.look_with(ranks)}"

    def _hold(self, outcome: Outcome) -> None:
        """Progress and figures alone are not worth a transaction each: they wait, and the log's position with them."""
        self._held += outcome.events
        outcome.events = []
        now = time.monotonic()
        if not self._held:
            return
        hasty = any(not isinstance(event, e.PhaseProgress | e.Throughput) for event in self._held)
        pause = _HOLD_FIGURES_S if isinstance(self._held[-1], e.Throughput) else _HOLD_PROGRESS_S
        # By the clock and not since the last time, so that several servers are stored in one commit.
        due = now // pause != self._held_since // pause or len(self._held) > _MOST_EVENTS
        if hasty or due or outcome.exit or outcome.became_ready or outcome.worth_storing:
            outcome.events, self._held, self._held_since = self._held, [], now
            outcome.only_figures = not (hasty or outcome.worth_storing or outcome.exit or outcome.became_ready) and all(
                isinstance(event, e.Throughput) for event in outcome.events
            )
            outcome.worth_storing = True

    def _seen_at(self) -> datetime:
        now = utc_now()
        modified = self.follower.modified_at
        return min(now, modified) if modified else now

    def _note(self, events: Sequence[e.LogEvent]) -> None:
        self.course.feed(events)
        for event in events:
            match event:
                case e.PhaseBegan():
                    self.open_phases.setdefault(event.phase, event.at)
                    self._reached = max(self._reached, e.PHASE[event.phase].state, key=ALIVE.index)
                case e.PhaseProgress():
                    self.progress[event.phase] = event
                case e.Throughput() if self.serving is not None:
                    self.serving.note(event, time.monotonic())
                case e.Failed() if self.ready and self.serving is not None and not self.stopping:
                    self.serving.fail(event)
                case e.PhaseEnded():
                    self.open_phases.pop(event.phase, None)
                    self.ended_phases.append(event.phase)
                case e.Restarted():
                    self._forget()
                case e.Listening() if event.port is not None and event.port != self.facts.port:
                    # A port that is not on the command line (a configuration file, a wrapper) is told by the log.
                    self.facts = replace(self.facts, port=event.port, host=event.host or self.facts.host)
                    self.readiness.facts = self.facts
                case e.Ready():
                    self.readiness.said_ready, self.readiness.said_at = not event.suspect, event.at
                case e.PortTaken():
                    self.port_taken = self.readiness.port_taken = True
                case _:
                    pass

    def _forget(self) -> None:
        """The lines so far were an earlier server's."""
        self.open_phases = {"starting": self.launched.started_at}
        self.course.began["starting"] = self.launched.started_at
        self.ended_phases, self.progress, self._reached = [], {}, "starting"
        self.port_taken = self.readiness.port_taken = self.readiness.said_ready = False
        if self.serving is not None:
            self.serving.died = None

    def _look(self, outcome: Outcome) -> None:
        ended = self.launcher.poll(self.launched)
        if ended is not None:
            self._finish(outcome, ended)
            return
        outcome.port_taken = self.port_taken and not self._told_port_taken
        self._told_port_taken = self.port_taken
        if self.ready or self.port_taken:
            return
        self._find_port(outcome)
        readable = self.follower.status in ("following", "vanished", "waiting")
        if self.readiness.judge(self.tree, readable):
            self.ready = outcome.became_ready = True

    def _find_port(self, outcome: Outcome) -> None:
        port = self.readiness.find_port(self.tree)
        if port is not None:
            event = e.Listening(at=utc_now(), host="127.0.0.1", port=port)
            self._note([event])
            outcome.events.append(event)
            outcome.worth_storing = True

    def _finish(self, outcome: Outcome, ended: Exit) -> None:
        """The process is gone: what it wrote last must be read before its end is told."""
        while True:
            lines = self.follower.read()
            for line in lines:
                outcome.events += self.parser.feed(line, self._seen_at())
            if self.follower.at_end:
                break
        for line in self.follower.finish():
            outcome.events += self.parser.feed(line, self._seen_at())
        outcome.events += self.parser.finish(self._seen_at())
        self._note(outcome.events)
        outcome.exit = ended
        outcome.worth_storing = True


def step_all(watches: Sequence[Watch]) -> dict[int, Outcome]:
    """What each look has found; one that fails is left out, told, and made again after a while."""
    found = {}
    for watch in watches:
        try:
            found[watch.number] = watch.step()
        except Exception:
            watch.rest()
            log.exception("L%d cannot be looked at", watch.number)
    return found


def _zone(name: str) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None
