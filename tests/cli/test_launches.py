"""Starting, watching, reading and stopping real servers."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S, free_port, lives, wait_until

pytestmark = pytest.mark.slow  # each test starts many processes

SERVER = """
import http.server, json, os, sys
print("loading", flush=True)
print(json.dumps({"argv": sys.argv, "cwd": os.getcwd(), "umask": os.umask(0), "mark": os.environ.get("MARK")}), flush=True)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), http.server.SimpleHTTPRequestHandler)
gate = sys.argv[2] if len(sys.argv) > 2 else None
if gate:
    open(gate).readline()
print("open for business", flush=True)
server.serve_forever()
"""


class Gate:
    """A pipe with a name, from which a server reads a line before it goes on."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._end = os.open(path, os.O_RDWR)

    def open(self) -> None:
        os.write(self._end, b"\n")

    def close(self) -> None:
        os.close(self._end)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    made = Gate(tmp_path / "gate")
    yield made
    made.close()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "my server.py"
    path.write_text(SERVER)
    return path


def _stop(sitrep: Sitrep, launch: str) -> None:
    assert f"{launch} was stopped" in sitrep("stop", launch, "--grace", "2").ok().out


def test_a_server_runs_as_this_shell_would_run_it(shared: Sitrep, script: Path, tmp_path: Path) -> None:
    port = str(free_port())
    launch = shared(
        "launch", "--name", "mine", "--watch", "--ready-pattern", "open for business", "--port", port, "--env", "MARK=a b",
        "--", sys.executable, str(script), port, cwd=tmp_path,
    ).ok()  # fmt: skip
    name = launch.out.split()[0]
    assert launch.out.splitlines()[0].startswith(f"{name} (mine) started, pid ")
    assert f"{name} is ready" in launch.out.splitlines()[-1]
    logged = shared("logs", name).ok().out
    told = json.loads(logged.splitlines()[1])
    umask = os.umask(0)
    os.umask(umask)
    assert told == {"argv": [str(script), port], "cwd": str(tmp_path), "umask": umask, "mark": "a b"}
    fact = shared("show", name, "--json").json
    assert (fact["state"], fact["watched"], fact["argv"]) == ("ready", True, [sys.executable, str(script), port])
    limits = Path(f"/proc/{fact['pid']}/limits").read_text()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert next(line for line in limits.splitlines() if line.startswith("Max open files")).split()[3] == str(soft)
    assert shared("watch", name).ok().out.splitlines()[-1].startswith(f"{name} is ready")
    assert f"Running:     {name} (mine) ready" in shared("status").ok().out
    assert "is taken by pid" in shared("launch", "--port", port, "--", sys.executable, str(script), port).refused()
    _stop(shared, name)
    assert not lives(fact["pid"])


def test_a_pasted_line_and_a_line_from_standard_input(shared: Sitrep, script: Path, tmp_path: Path) -> None:
    for words, stdin in (([], None), (["-"], "line")):
        port = str(free_port())
        log = tmp_path / f"{port}.log"
        line = f"MARK=pasted nohup {sys.executable} '{script}' {port} > {log} 2>&1 &"
        options = ["--ready-pattern", "open for business", "--port", port, "--watch"]
        done = shared("launch", *options, *(words or [line]), stdin=line + "\n" if stdin else None).ok()
        assert '"mark": "pasted"' in log.read_text()
        name = done.out.split()[0]
        assert shared("show", name, "--json").json["command"] == line
        _stop(shared, name)


def test_a_server_has_the_niceness_and_the_processors_of_this_shell(shared: Sitrep, tmp_path: Path) -> None:
    nice, processor = os.getpriority(os.PRIO_PROCESS, 0) + 3, max(os.sched_getaffinity(0))
    code = "import os; print(os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0)))"
    shell = ["nice", "-n", "3", "taskset", "-c", str(processor)]
    launch = [*shell, *shared.command("launch", "--watch", "--", sys.executable, "-c", code)]
    done = subprocess.run(
        launch, env=shared.environment(), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
    )
    first = done.stdout.split()[0]
    assert shared("logs", first).ok().out == f"{nice} [{processor}]\n"
    again = shared("restart", first, "--watch").out.split()
    repeated = next(word for word in again if word.startswith("L") and word != first)
    assert shared("logs", repeated).ok().out == f"{nice} [{processor}]\n"


def test_ctrl_c_ends_the_watching_and_not_the_server(shared: Sitrep, script: Path, gate: Gate) -> None:
    port = str(free_port())
    watching = shared.start(
        "launch", "--watch", "--ready-pattern", "open for business", "--port", port,
        "--", sys.executable, str(script), port, str(gate.path),
    )  # fmt: skip
    assert watching.stdout is not None
    name = watching.stdout.readline().split()[0]
    wait_until(lambda: "starting" in (watching.stdout.readline() if watching.stdout else ""))
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 130
    assert f"The server goes on. `sitrep watch {name}` looks again" in err
    pid = shared("show", name, "--json").json["pid"]
    assert lives(pid)
    second = shared.start("watch", name, "--json")
    gate.open()
    out, err = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, err
    states = [json.loads(line)["state"] for line in out.splitlines()]
    assert states[-1] == "ready"
    _stop(shared, name)


def test_a_server_that_fails_is_status_4(shared: Sitrep) -> None:
    code = "import sys; print('first'); print('about to fail', file=sys.stderr); sys.exit(3)"
    done = shared("launch", "--watch", "--", sys.executable, "-c", code)
    assert done.code == 4, done.out + done.err
    name = done.out.split()[0]
    end = done.out.splitlines()[-2:]
    assert end[0].startswith((f"{name} failed", f"{name} exited"))
    assert end[1] == f"Its log: `sitrep logs {name}`."
    assert shared("logs", name, "-n", "1").ok().out == "about to fail\n"
    assert shared("logs", name, "--all").ok().out == "first\nabout to fail\n"
    assert shared("logs", name, "-f").ok().out == "first\nabout to fail\n", "following ends with the server"
    pieces = shared("logs", name, "--json").json
    assert pieces["text"] == "first\nabout to fail\n"
    assert shared("watch", name).code == 4


def test_a_growing_log_is_followed(shared: Sitrep, gate: Gate) -> None:
    code = "import sys\nprint('one', flush=True)\nopen(sys.argv[1]).readline()\nprint('two – zwei')"
    name = shared("launch", "--json", "--", sys.executable, "-c", code, str(gate.path)).json["id"]
    follow = shared.start("logs", name, "--follow")
    assert follow.stdout is not None
    assert follow.stdout.readline() == "one\n"
    gate.open()
    out, err = follow.communicate(timeout=PATIENCE_S)
    assert (follow.returncode, out, err) == (0, "two – zwei\n", "")


def test_what_cannot_be_started_is_said(shared: Sitrep, tmp_path: Path) -> None:
    before = shared("launches", "--json").json["count"]
    assert "No such program: no-such-program" in shared("launch", "--", "no-such-program").refused()
    assert "Options come before the command" in shared("launch", "python -m x", "--watch").refused(2)
    assert (
        shared("launch", "--cwd", str(tmp_path / "none"), "--", "true").refused().count("no folder on this host") == 1
    )
    assert "no regular expression" in shared("launch", "--ready-pattern", "(", "--", "true").refused()
    assert shared("launches", "--json").json["count"] == before
    assert "There is no launch 'L99999'" in shared("stop", "L99999").refused()


def test_an_environment_that_is_no_text_is_left_out_with_a_word(shared: Sitrep) -> None:
    env = {os.fsdecode(b"BAD\xff"): "x", "WORSE": os.fsdecode(b"\xfe")}
    code = "import os; print(sorted(n for n in os.environb if n in (b'BAD\\xff', b'WORSE')), os.environ['FINE'])"
    done = shared("launch", "--watch", "--", sys.executable, "-c", code, env={**env, "FINE": "ü"})
    assert done.err.count("is left out of the environment: it is not UTF-8.") == 2
    assert shared("logs", done.out.split()[0]).ok().out == "[] ü\n"


def test_the_watching_outlives_the_daemon(sitrep: Sitrep, script: Path, gate: Gate) -> None:
    """A killed daemon is replaced by the watcher's own call, and the server is taken up by it."""
    port = str(free_port())
    options = ["--json", "--ready-pattern", "open for business", "--port", port]
    launch = sitrep("launch", *options, "--", sys.executable, str(script), port, str(gate.path)).json
    watching = sitrep.start("watch", launch["id"])
    assert watching.stdout is not None
    watching.stdout.readline()
    first = sitrep.daemon_pid()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: sitrep.daemon_pid() not in (None, first))
    assert lives(launch["pid"])
    gate.open()
    out, err = watching.communicate(timeout=PATIENCE_S)
    assert watching.returncode == 0, out + err
    assert f"{launch['id']} is ready" in out
    _stop(sitrep, launch["id"])


def test_what_was_told_of_a_launch_is_shown_as_told(shared: Sitrep) -> None:
    told = ["--state", "failed", "--exit-code", "1", "python -m s"]
    name = shared("launch", "record", "--json", *told).json["id"]
    row = next(line for line in shared("launches").ok().out.splitlines() if line.startswith(f"{name} "))
    assert "failed (told)" in row
    assert (
        f"{name} is not a process that this daemon follows; it was told to be failed" in shared("watch", name).refused()
    )
