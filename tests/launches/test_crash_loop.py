"""The daemon is killed at many random moments; nothing is lost, nothing is there twice, every server lives on."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import seed
from tests.helpers import lives, wait_until
from tests.launches.crashes import KINDS, Life, Told, life, processes_of, rows

from sitrepd.launches.engines import base as e
from sitrepd.launches.engines import engine_named
from sitrepd.launches.follow import LogFollower

pytestmark = [
    pytest.mark.slow,
    # The HTTP client leaves the socket open with which it could not reach a daemon that was just killed.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
KILLS = 210
SEED = 20261201
ENDED = ("failed", "exited", "lost")


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """All daemons but the last have been killed; the last has seen every server end."""
    folder = tmp_path_factory.mktemp("crashes")
    seed(folder / "store")
    with life(folder, SEED) as found:
        found.daemon.begin()
        found.daemon.listens()
        assert found.daemon.client.post("/sessions", json={"name": "crashes"}).status_code == 201
        found.daemon.end(signal.SIGKILL)
        found.daemon.buried(-signal.SIGKILL)
        for _ in range(KILLS):
            found.one_daemon(while_it_starts=found.random.random() < 0.3)
        found.daemon.begin()
        found.daemon.listens()
        _settle(found)
        yield found


def _settle(found: Life) -> None:
    """Wait for what ends by itself, look at what serves, stop it."""
    alive = ("serves", "deaf")

    def settled() -> bool:
        states = {one["name"]: one["state"] for one in launches(found)}
        return all(
            state in ENDED if name.split()[0] not in alive or name in found.stopped else state in ("ready", *ENDED)
            for name, state in states.items()
        )

    wait_until(settled, interval_s=0.1)
    for one in launches(found):
        if one["state"] == "ready":
            assert lives(one["pid"]), f"{one['id']} is said to be ready, and its process is gone"
            found.stopped.add(one["name"])
            answer = found.daemon.client.post(f"/launches/{one['id']}/stop", json={"grace_s": 0.5, "wait_s": 30})
            assert answer.status_code == 202, (one, answer.text)
    wait_until(lambda: all(one["state"] in ENDED for one in launches(found)), interval_s=0.1)


def launches(found: Life) -> list[dict[str, Any]]:
    query = "SELECT id, name, state, process, ready_at, ended_at, exit_code, exit_signal, log_path, log_position, cwd FROM launch"
    names = [name.strip() for name in query[7 : query.index(" FROM")].split(",")]
    told = [dict(zip(names, row, strict=True)) for row in rows(found.daemon.data_dir, query)]
    for one in told:
        one["process"] = json.loads(one["process"])
        one["pid"] = one["process"]["pid"]
        one["id"] = f"L{one['id']}"
    return told


def events_of(found: Life, subject: str) -> list[dict[str, Any]]:
    query = "SELECT kind, data FROM event WHERE subject = ? ORDER BY id"
    return [{"kind": kind, **json.loads(data or "{}")} for kind, data in rows(found.daemon.data_dir, query, subject)]


def holds(told: Told, stored: list[str]) -> None:
    doubled = [name for name, count in Counter(stored).items() if count > 1]
    assert not doubled
    assert not told.acknowledged.keys() - set(stored), "acknowledged and lost"
    assert not set(stored) - told.sent


def test_what_was_acknowledged_is_there_once(lived: Life) -> None:
    store = lived.daemon.data_dir
    assert len(lived.messages.acknowledged) > KILLS // 2
    holds(lived.messages, [str(number) for (number,) in rows(store, "SELECT number FROM message")])
    told = "SELECT title FROM finding WHERE provenance != 'observed'"
    holds(lived.findings, [title for (title,) in rows(store, told)])
    holds(lived.launches, [one["name"] for one in launches(lived)])
    for name, public in lived.launches.acknowledged.items():
        assert next(one["id"] for one in launches(lived) if one["name"] == name) == public


def test_each_fact_has_one_event_of_its_beginning(lived: Life) -> None:
    counted = dict(
        rows(lived.daemon.data_dir, "SELECT kind, count(*) FROM event WHERE kind LIKE '%.created' GROUP BY kind")
    )
    for word in ("message", "finding", "launch"):
        (stored,) = rows(lived.daemon.data_dir, f"SELECT count(*) FROM {word}")[0]
        assert counted[f"{word}.created"] == stored


def test_how_each_server_ended_is_known(lived: Life) -> None:
    kinds = Counter(one["name"].split()[0] for one in launches(lived))
    assert all(kinds[kind] >= KILLS // 100 for kind in KINDS), kinds
    for one in launches(lived):
        kind, *rest = one["name"].split()
        ended = (one["state"], one["exit_code"], one["exit_signal"])
        match kind:
            case "ends":
                assert ended == ("failed", int(rest[1]), None), one
            case "signalled":
                assert ended == ("failed", None, signal.SIGUSR1), one
            case "fails":
                assert ended == ("failed", None, signal.SIGKILL), one
            case "serves":
                assert ended in (("exited", 0, None), ("exited", None, signal.SIGTERM)), one
            case "deaf":
                assert ended == ("exited", None, signal.SIGKILL), one


def test_states_follow_one_another_and_none_comes_twice(lived: Life) -> None:
    for one in launches(lived):
        state = "starting"
        reached = [event for event in events_of(lived, one["id"]) if event.get("state")]
        for event in reached:
            assert event["before"] == state, (one["name"], reached)
            state = event["state"]
        assert state == one["state"]
        count = Counter(event["state"] for event in reached)
        assert count["ready"] == (1 if one["ready_at"] else 0)
        assert sum(count[name] for name in ENDED) == 1


def test_the_rows_are_those_of_one_reading(lived: Life) -> None:
    for one in launches(lived):
        expected = list(_phases(one)) if one["name"].split()[0] in ("serves", "fails") else []
        stored = rows(
            lived.daemon.data_dir,
            "SELECT name, done, total FROM launch_phase WHERE launch_id = ? ORDER BY id", int(one["id"][1:]),
        )  # fmt: skip
        assert Counter(stored) == Counter([("starting", None, None), *expected]), one["name"]
        told = events_of(lived, one["id"])
        for what in ("phase", "ended", "failure"):
            again = [
                name for name, count in Counter(event[what] for event in told if event.get(what)).items() if count > 1
            ]
            assert not again or what == "failure", (one["name"], what, again)


def _phases(one: dict[str, Any]) -> Iterator[tuple[str, int | None, int | None]]:
    """What one parser makes of the whole log, phase by phase."""
    parser, follower = engine_named("sglang").parser(None), LogFollower(_log(one))
    from sitrepd.clock import utc_now

    done: dict[str, tuple[int | None, int | None]] = {}
    lines = follower.read(1 << 30)
    events = [event for line in lines + follower.finish() for event in parser.feed(line, utc_now())]
    for event in events:
        match event:
            case e.PhaseBegan() if event.phase != "starting":
                done.setdefault(event.phase, (None, None))
            case e.PhaseProgress():
                done[event.phase] = (event.done, event.total)
            case e.PhaseEnded() if event.phase in done:
                done[event.phase] = (done[event.phase][1], done[event.phase][1])
    follower.close()
    for name, counts in done.items():
        yield name, *counts


def _log(one: dict[str, Any]) -> Path:
    return Path(one["cwd"]) / one["log_path"]


def test_each_log_was_read_to_its_last_byte(lived: Life) -> None:
    for one in launches(lived):
        size = _log(one).stat().st_size
        position = json.loads(one["log_position"] or "null")
        assert (position["offset"] if position else 0) == size, one["name"]


def test_each_failure_has_one_finding(lived: Life) -> None:
    query = "SELECT evidence FROM finding WHERE provenance = 'observed'"
    found = Counter(json.loads(evidence)[0] for (evidence,) in rows(lived.daemon.data_dir, query))
    assert max(found.values()) == 1
    failed = {one["id"] for one in launches(lived) if one["name"].startswith("fails")}
    assert failed <= found.keys()


def test_nothing_is_left_behind_and_the_database_is_whole(lived: Life) -> None:
    lived.daemon.end(signal.SIGTERM)
    lived.daemon.buried(0)
    left = [process.cmdline() for process in processes_of(lived.folder.parent) if process.pid != os.getpid()]
    assert left == []
    assert rows(lived.daemon.data_dir, "PRAGMA integrity_check") == [("ok",)]
    assert rows(lived.daemon.data_dir, "PRAGMA foreign_key_check") == []
