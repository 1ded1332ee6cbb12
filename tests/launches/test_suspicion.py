"""A start that stands still is told of, with what to look at, until it moves again."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.daemons import running_daemon
from tests.helpers import free_port, wait_until
from tests.launches.test_service import command, get, start, until

from sitrepd.clock import utc_now
from sitrepd.launches.engines import base as e
from sitrepd.launches.engines import engine_named
from sitrepd.launches.follow import LogFollower
from sitrepd.launches.launchers.base import Launched
from sitrepd.launches.processes import Stat, TreeCounters, identify, read_stat
from sitrepd.launches.stillness import Stillness
from sitrepd.launches.suspicion import Pulse, Standing, Suspicion, halted, words
from sitrepd.launches.watch import Watch

LEAST_S = 120.0


def pulse(*, log: int = 0, cpu_s: float = 0.0, read: int = 0, gpu: int | None = None, processes: int = 9) -> Pulse:
    counters = TreeCounters(processes, 100, cpu_s, 1 << 30, read, 0, read)
    return Pulse(log, counters, gpu)


def stand(suspicion: Suspicion, phase: str, seconds: int, since: int = 0, busy: bool = False) -> Standing | None:
    """Look every five seconds, and nothing moves."""
    told = None
    for now in range(since, since + seconds + 1, 5):
        told = suspicion.look(now, phase, now, pulse(cpu_s=now * 8.0 if busy else 0.0))
    return told


def test_what_stands_still_for_too_long_is_suspect() -> None:
    assert stand(Suspicion(LEAST_S), "load_weights", 235) is None
    assert stand(Suspicion(LEAST_S), "load_weights", 240) == Standing(240, 240, busy=False)


@pytest.mark.parametrize("moved", [{"log": 1}, {"cpu_s": 100.0}, {"read": 2 << 20}, {"gpu": 1}, {"processes": 10}])
def test_whatever_moves_is_alive(moved: dict[str, int]) -> None:
    suspicion = Suspicion(LEAST_S)
    assert stand(suspicion, "load_weights", 300) is not None
    assert suspicion.look(305, "load_weights", 305, pulse(**moved)) is None  # type: ignore[arg-type]
    for now in range(310, 420, 5):
        assert suspicion.look(now, "load_weights", now, pulse(**moved)) is None  # type: ignore[arg-type]
    assert suspicion.look(430, "load_weights", 430, pulse(**moved)) is not None  # type: ignore[arg-type]


def test_another_phase_begins_anew() -> None:
    suspicion = Suspicion(LEAST_S)
    assert stand(suspicion, "dist_init", 200) is not None
    assert suspicion.look(205, "load_weights", 2, pulse()) is None


def test_compilation_may_be_silent_for_longer() -> None:
    assert stand(Suspicion(LEAST_S), "capture_prefill", 355) is None
    assert stand(Suspicion(LEAST_S), "capture_prefill", 360) is not None


def test_earlier_starts_say_what_is_long() -> None:
    usual = {"load_weights": 500.0, "warmup": 2.0}.get
    assert stand(Suspicion(LEAST_S, usual), "load_weights", 1490) is None
    assert stand(Suspicion(LEAST_S, usual), "load_weights", 1500) is not None
    assert stand(Suspicion(LEAST_S, usual), "warmup", 120) is not None


def test_ranks_that_spin_are_suspect_later() -> None:
    assert stand(Suspicion(LEAST_S), "dist_init", 595, busy=True) is None
    assert stand(Suspicion(LEAST_S), "dist_init", 600, busy=True) == Standing(600, 600, busy=True)


def test_a_look_is_due_now_and_then() -> None:
    suspicion = Suspicion(LEAST_S)
    assert suspicion.is_due(0)
    suspicion.look(0, "starting", 0, pulse())
    assert not suspicion.is_due(4)
    assert suspicion.is_due(5)


def test_the_words_hold_a_command_for_each_rank() -> None:
    now = datetime(2026, 12, 1, 10, 2, 10, tzinfo=UTC)
    told = words("Loading weights", " at 40 of 64 shards", Standing(300, 130, False), 58.0, {"TP0": 7, "TP1": 8}, now)
    assert told == (
        "Loading weights has not moved since 2026-12-01 10:00:00 UTC at 40 of 64 shards: its log, processors, disks and GPU memory "
        "stand still. Earlier starts took 58 s for it. Look with: py-spy dump --pid 7 (TP0); py-spy dump --pid 8 (TP1)"
    )
    assert "busy" in words("Distributed init", "", Standing(900, 600, True), None, {"": 7}, now)


@pytest.mark.slow
def test_a_hanging_start_is_suspect_until_it_moves(tmp_path: Path) -> None:
    """The replay hangs at five eighths of its shards; it is not ended, and a line in its log clears the suspicion."""
    log = tmp_path / "server.log"
    with running_daemon(tmp_path / "store", suspect_after_s=1) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        start(daemon, command=command(free_port(), log, 3, "--fail hang"), cwd=str(tmp_path))

        def suspect() -> str | None:
            told: str | None = get(daemon, "L1").get("suspect")
            return told

        told = wait_until(suspect, interval_s=0.1)
        assert told is not None
        launch = get(daemon, "L1")
        assert f"py-spy dump --pid {launch['pid']}" in told
        assert " of 64 shards" in told
        assert (launch["state"], "failure" in launch) == ("loading", False)
        assert daemon.client.get("/api/v1/launches/L1/live").json()["suspect"] == told
        assert "suspect" in daemon.client.get("/api/v1/sessions/current/checkpoints/latest?format=md").text
        os.kill(launch["pid"], 0)
        with log.open("a") as file:
            file.write("\n[2026-12-01 00:00:00] Something moves again.\n")
        wait_until(lambda: suspect() is None, interval_s=0.05)
        events = [event["data"] for event in daemon.client.get("/api/v1/events").json() if event["subject"] == "L1"]
        assert [bool(data["suspect"]) for data in events if "suspect" in data][:2] == [True, False]
        daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 0, "wait_s": 10})
        assert "suspect" not in until(daemon, "L1", "exited", "failed")


def test_a_phase_that_moves_and_takes_far_longer_than_before_is_warned_of_once(tmp_path: Path) -> None:
    usual = {"load_weights": 100.0}
    watch = _watch(tmp_path, elapsed_s=250)
    watch.stillness = Stillness(Suspicion(LEAST_S, usual.get), lambda _: None)
    assert [event for event in _step(watch) if isinstance(event, e.Warned)] == []
    watch = _watch(tmp_path, elapsed_s=301)
    watch.stillness = Stillness(Suspicion(1e-3, usual.get), lambda _: None)
    (told,) = [event for event in _step(watch) if isinstance(event, e.Warned)]
    assert told.what == "slow_load"
    assert "Loading weights takes over three times as long as in earlier starts (1 min 40 s)" in told.text
    assert [event for event in _step(watch) if isinstance(event, e.Warned)] == []


def _watch(folder: Path, elapsed_s: float) -> Watch:
    """Of this process, as a server that has been loading its weights for so long."""
    log = folder / "log"
    began = utc_now() - timedelta(seconds=elapsed_s)
    log.write_text(f"[{began:%Y-%m-%d %H:%M:%S}] Load weight begin. avail mem=1.00 GB\n")
    main = identify(os.getpid())
    assert main is not None
    engine = engine_named("sglang")
    facts = engine.describe(["python", "-m", "sglang.launch_server", "--model-path", "/m"], {"TZ": "UTC"})
    return Watch(1, Launched(main, began), engine, replace(facts, timezone="UTC"), LogFollower(log))


def _step(watch: Watch) -> list[e.LogEvent]:
    return watch.step().events


def test_a_stopped_rank_is_named_with_what_lets_it_go_on() -> None:
    """The others wait for it, and stand as still as it does."""
    with subprocess.Popen(["sleep", "600"]) as stopped, subprocess.Popen(["sleep", "600"]) as waiting:
        try:
            stopped.send_signal(signal.SIGSTOP)

            def tree() -> dict[int, Stat]:
                found = [read_stat(pid) for pid in (stopped.pid, waiting.pid)]
                return {stat.pid: stat for stat in found if stat is not None}

            ranks = {"TP0": waiting.pid, "TP1": stopped.pid}
            told = wait_until(lambda: halted(tree(), ranks))
            assert told == (
                f"TP1 (pid {stopped.pid}) is stopped (SIGSTOP, or a debugger): kill -CONT {stopped.pid} lets it go on."
            )
            said = words("Distributed init", "", Standing(300, 130, False), None, ranks, utc_now(), told)
            assert f"stand still. {told} Look with: py-spy dump --pid {waiting.pid} (TP0)" in said
        finally:
            stopped.kill()
            waiting.kill()
    assert halted({}, {}) == ""
