"""A server that somebody else started is restarted as one of ours."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from tests.helpers import free_port, wait_until
from tests.launches.discovery.servers import Servers, launches, until_followed, watching


@pytest.mark.slow
def test_a_server_that_was_found_is_restarted_with_changed_flags(tmp_path: Path) -> None:
    servers, port = Servers(tmp_path), free_port()
    key = "sk-1234567890abcdef"
    try:
        with watching(servers) as daemon:
            words = " ".join(servers.argv(port, "--tp-size", "2", "--api-key", key))
            servers.shell(f"NCCL_PROTO=LL nohup {words} > s.log 2>&1 &", env={"FAKE_RANKS": "1"})
            until_followed(daemon, servers.main(), "ready")
            refused = daemon.client.post("/api/v1/launches/L1/restart", json={"caller_env": servers.env()})
            assert refused.status_code == 422
            assert "API_KEY" in refused.json()["detail"]
            asked = {"caller_env": servers.env(API_KEY=key), "set": {"tp-size": 4}, "name": "four", "grace_s": 5}
            answer = daemon.client.post("/api/v1/launches/L1/restart", json=asked)
            assert answer.status_code == 201, answer.text
            again = wait_until(lambda: (one := launches(daemon)[1])["state"] == "ready" and one)
            assert (again["id"], again["name"], again["from_launch"], again["port"]) == ("L2", "four", "L1", port)
            process = psutil.Process(again["pid"])
            assert process.cmdline()[-4:] == ["--tp-size", "4", "--api-key", key]
            assert process.environ()["NCCL_PROTO"] == "LL"
            assert launches(daemon)[0]["state"] == "exited"
            assert len(launches(daemon)) == 2
            daemon.client.post("/api/v1/launches/L2/stop", json={"grace_s": 2, "wait_s": 20})
    finally:
        servers.end()
