"""A real SGLang that a shell has started is found, followed, and missed when it is gone."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

from tests.engine.models import make_model
from tests.engine.servers import ENDED, START_S, Room, kill, rank, tree
from tests.helpers import all_ended, free_port, wait_until


def test_a_server_started_with_nohup_is_found(room: Room) -> None:
    port = free_port()
    command = shlex.join(room.command(make_model(room.folder / "model"), port))
    subprocess.run(["bash", "-c", f"nohup {command} > found.log 2>&1 &"], cwd=room.folder, check=True)

    def found() -> dict[str, Any] | None:
        listed = room.daemon.client.get("/api/v1/launches").json()["data"]
        return next((one for one in listed if one.get("port") == port), None)

    launch = wait_until(found, 60, 0.2)
    assert launch is not None
    room.started.append(launch["pid"])
    code, _ = room.watch(launch["id"])
    assert code == 0
    launch = room.show(launch["id"])
    assert (launch["provenance"], launch["watched"], launch["engine"]) == ("observed", True, "sglang")
    assert launch["log_path"] == str(room.folder / "found.log")
    assert launch["cwd"] == str(room.folder)
    assert [phase["name"] for phase in launch["phases"]][:3] == ["starting", "dist_init", "load_weights"]
    _its_processes_are_known(room, launch)
    _it_is_missed(room, launch)


def _its_processes_are_known(room: Room, launch: dict[str, Any]) -> None:
    servers = room.daemon.client.get("/api/v1/servers").json()["servers"]
    (server,) = [one for one in servers if one["pid"] == launch["pid"]]
    assert server["launch"] == launch["id"]
    assert server["listening"] == [launch["port"]]
    assert rank(launch["pid"]).pid in [one["pid"] for one in server["ranks"]]


def _it_is_missed(room: Room, launch: dict[str, Any]) -> None:
    """Nobody of ours was its parent, so nobody knows how it ended."""
    pids = {one.pid for one in tree(launch["pid"])}
    kill(launch["pid"])
    wait_until(lambda: room.show(launch["id"])["state"] in ENDED, START_S, 0.2)
    ended = room.show(launch["id"])
    assert ended["state"] == "lost"
    assert "exit_code" not in ended
    wait_until(lambda: all_ended(*pids), 60, 0.1)
