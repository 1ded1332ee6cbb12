"""What is left of a start that is over, and how it is told."""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import free_port, wait_until
from tests.launches.discovery.servers import Servers, servers_now, until_followed, watching
from tests.launches.discovery.tables import process, table

from sitrepd.launches.discovery.find import find
from sitrepd.launches.discovery.leftovers import Ended, Orphan, launch_in, marked_launch, orphans
from sitrepd.launches.discovery.told import beside
from sitrepd.launches.discovery.view import OrphanOut, ServerOut, ServersOut

STORE = Path("/store/launches")
NOW = datetime(2026, 12, 1, tzinfo=UTC)
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main", "--multiprocessing-fork")


def left(processes: Any, ended: list[Ended], gpu: dict[int, int | None], **more: Any) -> list[Orphan]:
    return orphans(find(processes), ended, more.pop("busy", ()), gpu, STORE, **more)


def test_a_process_of_an_ended_launch_that_holds_gpu_memory_is_left_over() -> None:
    seen = table(process(4_000_020, "python", group=4_000_010, start=50), process(4_000_021, "python", group=7))
    ended = [Ended(3, (4_000_010, 40))]
    (one,) = left(seen, ended, {4_000_020: 5 << 30})
    assert (one.launch, one.pids, one.gpu_bytes) == (3, [4_000_020], 5 << 30)
    assert one.command == "kill -KILL 4000020"
    assert left(seen, ended, {}) == []
    assert left(seen, ended, {4_000_020: 1}, busy=[4_000_020]) == []
    assert left(seen, [], {4_000_020: 1}) == []


def test_a_group_whose_number_has_gone_to_another_is_not_the_launchs() -> None:
    reused = table(process(4_000_010, "vim", start=90), process(4_000_020, "python", group=4_000_010, start=95))
    assert left(reused, [Ended(3, (4_000_010, 40))], {4_000_020: 1}) == []
    same = table(process(4_000_010, "x", start=40), process(4_000_020, "python", group=4_000_010, start=95))
    assert [one.launch for one in left(same, [Ended(3, (4_000_010, 40))], {4_000_020: 1})] == [3]


def test_what_the_supervisor_took_in_is_the_launchs_and_so_is_what_was_once_seen() -> None:
    seen = table(process(4_000_005, "x", start=9), process(4_000_020, SPAWNED, 4_000_005), process(4_000_021, SPAWNED))
    found = left(
        seen, [Ended(3, (1, 1), (4_000_005, 9)), Ended(4, (2, 2))], {4_000_020: 1, 4_000_021: None},
        remembered={4_000_021: 4},
    )  # fmt: skip
    assert [(one.launch, one.pids) for one in found] == [(3, [4_000_020]), (4, [4_000_021])]


def test_ranks_of_nobody_are_left_over_by_group() -> None:
    seen = table(
        process(4_000_020, "sglang::scheduler_TP0", group=7), process(4_000_021, "sglang::detokenizer", group=7),
        process(4_000_022, SPAWNED, group=8), process(4_000_023, SPAWNED, group=9),
    )  # fmt: skip
    found = left(seen, [], {4_000_022: 1})
    assert [(one.launch, one.pids) for one in found] == [(None, [4_000_020, 4_000_021]), (None, [4_000_022])]
    assert found[0].names == ["sglang::scheduler_TP0", "sglang::detokenizer"]


def test_the_mark_of_a_launch_names_this_stores_launches_only() -> None:
    assert launch_in("/store/launches/L12", STORE) == 12
    assert launch_in("/other/launches/L12", STORE) is None
    assert launch_in("/store/launches/x", STORE) is None
    assert marked_launch({"SITREP_LAUNCH": "/store/launches/L2"}, STORE) == 2
    assert marked_launch({}, STORE) is None
    assert marked_launch(None, STORE) is None


def test_a_checkpoint_tells_what_else_is_on_the_machine() -> None:
    orphan = OrphanOut(
        pids=[12, 13], names=["sglang::scheduler_TP0"], launch="L3", started_at=NOW, gpu_memory_bytes=3 << 30,
        ports=[30000], command="kill -KILL 12 13",
    )  # fmt: skip
    server = ServerOut(pid=5, kind="vllm", readable=False, user="bob", started_at=NOW, port=8000)
    followed = ServerOut(pid=6, kind="sglang", readable=True, launch="L4", started_at=NOW)
    told = beside(ServersOut(at=NOW, servers=[server, followed], orphans=[orphan], benchmarks=[]))
    assert [item["text"] for item in told] == [
        "Processes of L3, which has ended, still run (sglang::scheduler_TP0), and hold 3.0 GiB of GPU memory and port "
        "30000; this ends them: kill -KILL 12 13",
        "A server that is not followed runs on this machine: vllm, process 5 of bob, port 8000",
    ]
    assert beside(None) == []


def rank_with_port(port: int) -> str:
    return f"import os, socket, time; os.setsid(); s = socket.create_server(('127.0.0.1', {port})); time.sleep(300)"


@pytest.mark.slow
def test_a_rank_that_outlives_a_launch_of_ours_is_reported_until_it_is_ended(servers: Servers) -> None:
    port = free_port()
    with watching(servers) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        env = servers.env(FAKE_RANKS="1", FAKE_RANK=rank_with_port(port), FAKE_DIE="1")
        body = {"argv": servers.argv(free_port()), "cwd": str(servers.folder), "env": env}
        assert daemon.client.post("/api/v1/launches", json=body).status_code == 201

        def orphan() -> dict[str, Any] | None:
            found: list[dict[str, Any]] = servers_now(daemon)["orphans"]
            return next((one for one in found if port in one["ports"]), None)

        one = wait_until(orphan)
        assert (one["launch"], one["names"]) == ("L1", ["sglang::scheduler_TP0"])
        text = daemon.client.post("/api/v1/sessions/S1/checkpoints", params={"format": "md"}).text
        assert f"port {port}; this ends them: {one['command']}" in text, text
        subprocess.run(["sh", "-c", one["command"]], check=True)
        wait_until(lambda: orphan() is None)


@pytest.mark.slow
def test_ranks_of_a_followed_server_that_was_killed_are_known_as_its(servers: Servers) -> None:
    with watching(servers) as daemon:
        words = " ".join(servers.argv(free_port()))
        servers.shell(f"nohup {words} > s.log 2>&1 &", env={"FAKE_RANKS": "2"})
        pid = servers.main()
        until_followed(daemon, pid, "ready")
        ranks = wait_until(
            lambda: next((one["ranks"] for one in servers_now(daemon)["servers"] if one["pid"] == pid), [])
        )
        os.kill(pid, signal.SIGKILL)

        def orphan() -> dict[str, Any] | None:
            found: list[dict[str, Any]] = servers_now(daemon)["orphans"]
            return next((one for one in found if one["pids"] == sorted(rank["pid"] for rank in ranks)), None)

        assert wait_until(orphan)["launch"] == "L1"
