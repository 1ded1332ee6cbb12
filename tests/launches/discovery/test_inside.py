"""What a launch runs, where its own words do not say it."""

from __future__ import annotations

import shlex
import signal
import sys

import pytest
from tests.helpers import free_port, wait_until
from tests.launches.discovery.servers import Servers, launches, servers_now, watching

_SERVER = """
import sys, http.server
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


@pytest.mark.slow
def test_a_script_is_the_server_that_it_starts_and_a_port_is_known_by_its_answers(servers: Servers) -> None:
    port, other = free_port(), free_port()
    words = shlex.join(servers.argv(port, "--tp-size", "2"))
    script = f"export CUDA_VISIBLE_DEVICES=0,1\ncd /\n{words} > {servers.folder}/in.log 2>&1\n"
    (servers.folder / "serve.sh").write_text(script)
    (servers.folder / "any.py").write_text(_SERVER)
    where = {"cwd": str(servers.folder), "env": servers.env(FAKE_S="3"), "inherit_env": False}
    with watching(servers, adopt="false") as daemon:
        post = daemon.client.post
        post("/api/v1/sessions", json={"name": "s"})
        assert post("/api/v1/launches", json={"argv": ["bash", "serve.sh"], **where}).json()["engine"] == "generic"
        hidden = f"bash -c 'exec {sys.executable} any.py $(({other - 1}+1))'"
        assert "port" not in post("/api/v1/launches", json={"command": hidden, **where}).json()
        wait_until(lambda: launches(daemon)[0]["engine"] == "sglang")
        daemon.restart(signal.SIGKILL)
        wait_until(lambda: {one["state"] for one in launches(daemon)} == {"ready"})
        inside, found = launches(daemon)
        assert (inside["engine"], inside["port"], inside["model"]) == ("sglang", port, "/models/kimi")
        assert (inside["argv"], inside["log_path"]) == (["bash", "serve.sh"], str(servers.folder / "in.log"))
        names = [phase["name"] for phase in inside["phases"]]
        assert {"starting", "load_weights", "kv_cache"} <= set(names)
        assert len(names) == len(set(names))
        assert (found["engine"], found["port"]) == ("generic", other)
        mine = [one for one in servers_now(daemon)["servers"] if "launch" in one]  # others may run on this machine
        told = {one["launch"]: (one["kind"], one["listening"]) for one in mine}
        assert told == {"L1": ("sglang", [port]), "L2": ("generic", [other])}
        for name in ("L1", "L2"):
            assert daemon.client.post(f"/api/v1/launches/{name}/stop", json={"wait_s": 30}).json()["state"] == "exited"
        wait_until(lambda: not servers.pids())
