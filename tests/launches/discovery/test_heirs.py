"""A launch whose command starts its server elsewhere, and ends at once or stands for it."""

from __future__ import annotations

import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon
from tests.helpers import free_port, lives, wait_until
from tests.launches.discovery.servers import Servers, launches, servers_now, watching

pytestmark = pytest.mark.slow  # each starts servers of its own, and some a tmux

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="apt-get install tmux")


@pytest.fixture
def tmux(servers: Servers) -> Iterator[list[str]]:
    """The words of a tmux with a server of its own, which is ended at the end."""
    words = ["tmux", "-f", "/dev/null", "-S", str(servers.folder / "tmux.sock")]
    yield words
    subprocess.run([*words, "kill-server"], check=False, capture_output=True)


def _start(daemon: Daemon, servers: Servers, command: str, **more: Any) -> dict[str, Any]:
    body = {
        "command": command,
        "cwd": str(servers.folder),
        "env": servers.env(FAKE_S="1", **more),
        "inherit_env": False,
    }
    answer = daemon.client.post("/api/v1/launches", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def _is_ready(daemon: Daemon, port: int) -> dict[str, Any]:
    """It alone is there, and it is the server."""
    wait_until(lambda: launches(daemon)[0]["state"] in ("ready", "failed", "exited", "lost"))
    one, *others = launches(daemon)
    assert others == [], (one, others)
    assert (one["state"], one["engine"], one["port"]) == ("ready", "sglang", port), one
    return one


def _listening(daemon: Daemon) -> dict[str, list[int]]:
    """Ports by launch; of what else runs on this machine nothing."""
    return {one["launch"]: one["listening"] for one in servers_now(daemon)["servers"] if one.get("launch")}


def _is_stopped(daemon: Daemon) -> None:
    [pid] = [one["pid"] for one in servers_now(daemon)["servers"] if one.get("launch")]
    answer = daemon.client.post("/api/v1/launches/L1/stop", json={"wait_s": 60, "grace_s": 5})
    assert answer.json()["state"] == "exited", answer.text
    wait_until(lambda: not lives(pid))


@needs_tmux
@pytest.mark.parametrize("runs_already", [False, True])
def test_a_server_in_tmux_is_the_launch(servers: Servers, tmux: list[str], runs_already: bool) -> None:
    port, log = free_port(), servers.folder / "in.log"
    if runs_already:
        subprocess.run([*tmux, "new-session", "-d", "sleep 600"], env=servers.env(FAKE_S="1"), check=True)
    inside = f"{shlex.join(servers.argv(port, '--tp-size', '2'))} > {log} 2>&1"
    with watching(servers) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        _start(daemon, servers, f"{shlex.join(tmux)} new-session -d -s sgl {shlex.quote(inside)}")
        one = _is_ready(daemon, port)
        assert (one["log_path"], one["model"]) == (str(log), "/models/kimi")
        assert "tmux" in one["command"]
        daemon.restart(signal.SIGKILL)
        assert _is_ready(daemon, port)["id"] == "L1"
        wait_until(lambda: _listening(daemon) == {"L1": [port]})
        _is_stopped(daemon)


def test_a_server_that_a_script_leaves_in_the_background_is_the_launch(servers: Servers) -> None:
    port = free_port()
    script = servers.folder / "start.sh"
    script.write_text(f"#!/bin/bash\n{shlex.join(servers.argv(port))} > {servers.folder}/in.log 2>&1 &\necho started\n")
    with watching(servers, adopt="false") as daemon:
        _start(daemon, servers, "bash start.sh")
        _is_ready(daemon, port)
        _is_stopped(daemon)


# Stands for docker: hands the words behind the image to a process that is not below it, and waits for it or not.
_DOCKER = """#!/bin/bash
args=("$@")
for at in "${{!args[@]}}"; do [ "${{args[$at]}}" = image ] && words=("${{args[@]:$((at + 1))}}"); done
printf '%q ' "${{words[@]}}" > {folder}/asked.new; mv {folder}/asked.new {folder}/asked
if [ "$2" = -d ]; then printf '%064d\\n' 7; exit 0; fi
tail -n +1 --retry -F {folder}/engine.log 2>/dev/null & tail=$!
trap 'kill $(cat {folder}/engine.pid)' TERM
until [ -e {folder}/ended ]; do sleep 0.1; done
kill $tail
"""
_ENGINE = """
until [ -e {folder}/asked ]; do sleep 0.05; done
eval "$(cat {folder}/asked) > {folder}/engine.log 2>&1 &"
echo $! > {folder}/engine.pid
wait
touch {folder}/ended
"""


@pytest.fixture
def docker(servers: Servers) -> Iterator[Path]:
    """The folder of a program `docker`, and the engine that it speaks to."""
    folder = servers.folder / "bin"
    folder.mkdir()
    (folder / "docker").write_text(_DOCKER.format(folder=servers.folder))
    (folder / "docker").chmod(0o755)
    with subprocess.Popen(["bash", "-c", _ENGINE.format(folder=servers.folder)], env=servers.env(FAKE_S="1")) as engine:
        yield folder
        engine.kill()


@pytest.mark.parametrize("detached", [True, False])
def test_a_server_in_a_container_is_the_launch(servers: Servers, docker: Path, detached: bool) -> None:
    port = free_port()
    words = shlex.join(servers.argv(port, "--tp-size", "2", "--api-key", "sk-0123456789abcdef"))
    with watching(servers) as daemon:
        _start(
            daemon, servers, f"docker run {'-d' if detached else '--rm'} image {words}", PATH=f"{docker}:/usr/bin:/bin"
        )
        one = _is_ready(daemon, port)
        if not detached:
            assert lives(one["pid"])
            wait_until(
                lambda: {"load_weights", "kv_cache"} <= {phase["name"] for phase in launches(daemon)[0]["phases"]}
            )
        wait_until(lambda: _listening(daemon) == {"L1": [port]})
        daemon.restart(signal.SIGKILL)
        _is_ready(daemon, port)
        _is_stopped(daemon)


def test_one_that_leaves_nothing_alone_says_so(servers: Servers) -> None:
    (servers.folder / "start.sh").write_text(
        "#!/bin/bash\n# docker would be\nsystemd-run --version >/dev/null 2>&1; exit 0\n"
    )
    with watching(servers, adopt="false") as daemon:
        _start(daemon, servers, "bash start.sh")
        wait_until(lambda: launches(daemon)[0]["state"] == "exited")
        [one] = launches(daemon)
        assert one["warnings"] == [
            "The command ended with exit code 0, and did not wait for a server; no server was found that it has started."
        ]
