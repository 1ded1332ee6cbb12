"""What could not be observed is said: times without a daemon, GPUs that cannot be read."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, SHIPPED, latest, make, section, tell
from tests.daemons import application
from tests.helpers import wait_until

from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.report import _unreadable


def gaps(client: TestClient) -> list[dict[str, Any]]:
    return [one["data"] for one in client.get(f"{API}/events").json() if one["kind"] == "daemon.gap"]


def test_a_time_without_a_daemon_is_said_by_the_next(tmp_path: Path) -> None:
    file = tmp_path / "store" / "alive"
    with application(tmp_path / "store") as client:
        tell(client, "sessions", name="s")
        wait_until(file.exists)
        assert "was not observed" not in latest(client)
    hours_ago = time.time() - 7500
    os.utime(file, (hours_ago, hours_ago))
    with application(tmp_path / "store") as client:
        wait_until(lambda: gaps(client))
        make(client)
        (line,) = [line for line in latest(client).split("\n") if "was not observed" in line]
        assert line.startswith("- From 20")
        assert " (2 h 5 min) the daemon did not run: what happened then was not observed" in line
        assert file.stat().st_mtime > hours_ago
    with application(tmp_path / "store") as client:
        make(client)
        assert len(gaps(client)) == 1


def test_gpus_that_cannot_be_read_are_said_not_to_be() -> None:
    live = LiveHardware(host_id=1, reason="driver does not answer")
    hosts: list[Any] = [SimpleNamespace(id=1, gpus=[{"index": 0}]), SimpleNamespace(id=2, gpus=[{"index": 0}])]
    (item,) = _unreadable(SimpleNamespace(live={"hardware": live}), hosts)  # type: ignore[arg-type]
    assert item["volatile"]
    part = SHIPPED.typeset(section("hardware", [item]))
    assert part.pieces[0].text == "- The GPUs of H1 cannot be read now: `driver does not answer`"
    for other in ({}, {"hardware": LiveHardware()}, {"hardware": LiveHardware(host_id=1, reason=None)}):
        assert not list(_unreadable(SimpleNamespace(live=other), hosts))  # type: ignore[arg-type]
