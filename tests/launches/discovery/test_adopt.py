"""Servers that somebody else started are followed as launches, each once."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import PATIENCE_S, free_port, lives, wait_until
from tests.launches.discovery.servers import Servers, launches, servers_now, until_followed, watching

from sitrepd.launches.discovery import adopt

pytestmark = pytest.mark.slow  # each test starts daemons of its own


def test_a_server_started_with_nohup_is_followed(servers: Servers) -> None:
    port = free_port()
    with watching(servers) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        words = " ".join(servers.argv(port, "--tp-size", "2", "--api-key", "sk-1234567890abcdef"))
        servers.shell(
            f"NCCL_PROTO=LL HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 nohup {words} > s.log 2>&1 &",
            env={"FAKE_RANKS": "2", "FAKE_S": "3"},
        )
        pid = servers.main()
        launch = until_followed(daemon, pid, "ready")
        assert (launch["id"], launch["session"], launch["engine"]) == ("L1", "S1", "sglang")
        assert (launch["provenance"], launch["watched"], launch["port"]) == ("observed", True, port)
        assert launch["log_path"] == str(servers.folder / "s.log")
        assert launch["cwd"] == str(servers.folder)
        assert launch["env"]["NCCL_PROTO"] == "LL"
        assert launch["env"]["HF_TOKEN"] == "${HF_TOKEN}"
        assert launch["argv"][1:3] == ["-m", "sglang.launch_server"]
        assert launch["argv"][-1] == "${API_KEY}"
        assert "PATH" not in launch["env"]
        assert [phase["name"] for phase in launch["phases"]][:2] == ["starting", "dist_init"]
        told = next(one for one in servers_now(daemon)["servers"] if one["pid"] == pid)
        assert (told["launch"], told["state"], told["readable"]) == ("L1", "ready", True)
        assert [rank["title"] for rank in told["ranks"]] == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
        assert told["listening"] == [port]
        assert "sk-1234567890abcdef" not in str(told)
        assert len(launches(daemon)) == 1
        # It is stopped as one of ours is.
        stopped = daemon.client.post("/api/v1/launches/L1/stop", json={"wait_s": 20}).json()
        assert stopped["state"] == "exited"
        assert "exit_code" not in stopped
        wait_until(lambda: not servers.pids())
        assert "Gracefully exiting" in (servers.folder / "s.log").read_text()


@pytest.mark.slow
def test_it_is_recorded_once_across_daemons_that_are_killed(servers: Servers) -> None:
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &", env={"FAKE_S": "4"})
    pid = servers.main()
    with watching(servers) as daemon:
        until_followed(daemon, pid)
        for _ in range(3):
            daemon.restart(signal.SIGKILL)
            until_followed(daemon, pid)
        launch = until_followed(daemon, pid, "ready")
        assert [one["id"] for one in launches(daemon)] == ["L1"]
        os.kill(pid, signal.SIGKILL)
        ended = wait_until(lambda: (one := launches(daemon)[0])["state"] != "ready" and one)
        assert (ended["state"], ended.get("exit_code"), launch["ready_at"]) == ("lost", None, ended["ready_at"])
        daemon.restart(signal.SIGKILL)
        servers_now(daemon)
        assert [one["id"] for one in launches(daemon)] == ["L1"]


def test_a_server_that_ran_long_before_the_daemon_is_ready_since_its_log_said_so(servers: Servers) -> None:
    """Its start, and that of a server before it in the same log, are told apart by their times."""
    port = free_port()
    log = servers.folder / "s.log"
    log.write_text(
        "[2026-01-01 10:00:00] server_args=ServerArgs(model_path='/old', port=1)\n"
        "[2026-01-01 10:00:01] Load weight begin. avail mem=1.00 GB\n"
        "torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    os.utime(log, (1, 1))
    servers.shell(f"nohup {' '.join(servers.argv(port))} >> s.log 2>&1 &")
    pid = servers.main()
    wait_until(lambda: "fired up" in log.read_text())
    with watching(servers) as daemon:
        launch = until_followed(daemon, pid, "ready")
        assert "failure" not in launch
        assert launch["port"] == port
        assert launch["settings"]["model_path"] == "/models/kimi"


def test_a_log_behind_tee_is_read_and_a_pipe_to_somebody_is_told(servers: Servers) -> None:
    with watching(servers) as daemon:
        servers.shell(f"{' '.join(servers.argv(free_port()))} 2>&1 | tee -a tee.log", stdout=subprocess.DEVNULL)
        launch = until_followed(daemon, servers.main(), "ready")
        assert launch["log_path"] == str(servers.folder / "tee.log")
        servers.end()
        servers.started.clear()
        port = free_port()
        process = servers.start(servers.argv(port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        launch = until_followed(daemon, process.pid, "ready")
        assert "log_path" not in launch
        assert launch["port"] == port
        problem = daemon.client.get(f"/api/v1/launches/{launch['id']}/live").json()["log_problem"]
        assert problem.startswith("Its output goes to a pipe")
        assert launch["log_problem"] == problem
        assert problem in daemon.client.get(f"/api/v1/launches/{launch['id']}/log").json()["detail"]


@pytest.mark.slow
def test_no_launch_of_ours_is_doubled(servers: Servers) -> None:
    """Whether the server is executed at once, below a shell, or while the row is being written."""
    words = " ".join(servers.argv(free_port()))
    with watching(servers, discover_s=0.05) as daemon:
        bodies = [f"{words} > 1.log 2>&1", f"cd . && (sleep 0; {words}) > 2.log 2>&1; true"]
        for body in bodies:
            answer = daemon.client.post(
                "/api/v1/launches",
                json={"command": body, "cwd": str(servers.folder), "env": servers.env(), "force": True},
            )
            assert answer.status_code == 201, answer.text
            servers.main()
            servers_now(daemon)
            daemon.restart(signal.SIGKILL)
            servers_now(daemon)
            number = answer.json()["id"]
            daemon.client.post(f"/api/v1/launches/{number}/stop", json={"wait_s": 20, "grace_s": 1})
        servers_now(daemon)
        assert [one["id"] for one in launches(daemon)] == ["L1", "L2"]
        assert "observed" not in [one["provenance"] for one in launches(daemon)]


def test_an_imported_session_gets_no_servers(servers: Servers) -> None:
    """What is exported is what was imported: servers of this machine are no facts of that session."""
    with watching(servers) as daemon:
        daemon.client.post("/api/v1/import", content=b'{"type":"session","name":"imported"}').raise_for_status()
        servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > 1.log 2>&1 &")
        assert "session" not in until_followed(daemon, servers.main())


def test_the_session_is_that_of_the_folder(servers: Servers) -> None:
    with watching(servers) as daemon:
        for name in ("a", "b"):
            daemon.client.post("/api/v1/sessions", json={"name": name})
        servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > 1.log 2>&1 &")
        assert "session" not in until_followed(daemon, servers.main())
        servers.end()
        servers.started.clear()
        work = servers.folder / "work"
        work.mkdir()
        answer = daemon.client.post("/api/v1/sessions/S2/folders", json={"path": str(work)})
        assert answer.status_code in (200, 201), answer.text
        servers.shell(f"cd work && nohup {' '.join(servers.argv(free_port()))} > 1.log 2>&1 &")
        assert until_followed(daemon, servers.main())["session"] == "S2"


@pytest.mark.slow
def test_nothing_is_followed_where_that_is_not_wanted(servers: Servers) -> None:
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &")
    pid = servers.main()
    elsewhere = servers.folder / "elsewhere"
    for settings in ({"adopt": "false"}, {"adopt_below": elsewhere}):
        with watching(servers, name="-".join(settings), **settings) as daemon:
            told = next(one for one in servers_now(daemon)["servers"] if one["pid"] == pid)
            assert "launch" not in told
            assert told["log_path"] == str(servers.folder / "s.log")
            assert launches(daemon) == []


@pytest.mark.slow
def test_two_daemons_follow_the_same_server(servers: Servers) -> None:
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &")
    pid = servers.main()
    with watching(servers, "one") as one, watching(servers, "two") as two:
        assert until_followed(one, pid, "ready")["id"] == "L1"
        assert until_followed(two, pid, "ready")["id"] == "L1"


def test_a_server_that_breaks_off_is_failed_by_its_log(servers: Servers) -> None:
    with watching(servers) as daemon:
        servers.shell(
            f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &",
            env={"FAKE_FLAGS": "--fail oom", "FAKE_S": "3"},
        )
        pid = servers.main()
        launch = until_followed(daemon, pid, "failed")
        assert "out of memory" in launch["failure"].lower()
        assert "exit_code" not in launch
        findings = wait_until(lambda: daemon.client.get("/api/v1/findings").json()["data"])
        assert "L1" in findings[0]["evidence"]


@pytest.mark.slow
def test_a_number_that_is_used_again_is_another_process(servers: Servers) -> None:
    """The row of an ended launch bears the pid of a living server, but another start."""
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &")
    pid = servers.main()
    with watching(servers) as daemon:
        until_followed(daemon, pid, "ready")
    import sqlite3
    from contextlib import closing

    path = servers.folder / "store" / "sitrep.db"
    with closing(sqlite3.connect(path)) as db, db:
        process = json.loads(db.execute("SELECT process FROM launch WHERE id = 1").fetchone()[0])
        process["identity"]["start_ticks"] -= 100
        db.execute("UPDATE launch SET process = ? WHERE id = 1", (json.dumps(process),))
    with watching(servers) as daemon:
        wait_until(lambda: len(launches(daemon)) == 2)
        first, second = launches(daemon)
        assert wait_until(lambda: launches(daemon)[0]["state"]) in ("lost", "ready")
        assert second["pid"] == pid
        assert wait_until(lambda: launches(daemon)[0].get("ended_at"))
        assert lives(pid), first


def test_a_running_benchmark_is_noticed(servers: Servers) -> None:
    package = servers.folder / "packages" / "sglang"
    (package / "bench_serving.py").write_text("import time\ntime.sleep(300)\n")
    with watching(servers) as daemon:
        process = servers.start([sys.executable, "-m", "sglang.bench_serving", "--api-key", "sk-1234567890abcdef"])

        def noticed() -> list[dict[str, object]]:
            return [one for one in servers_now(daemon)["benchmarks"] if one["pid"] == process.pid]

        (told,) = wait_until(noticed)
        assert told["name"] == "sglang.bench_serving"
        assert "sk-1234567890abcdef" not in str(told)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_another_users_server_is_listed_with_what_may_be_read(servers: Servers) -> None:
    """The scan is made by a user who may look into nothing of it."""
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &")
    pid = servers.main()
    code = (
        "import os, sys\n"
        "from sitrepd.launches.discovery.details import look\n"
        "from sitrepd.launches.discovery.find import find\n"
        "from sitrepd.launches.discovery.table import read_table\n"
        "os.setgid(65534); os.setuid(65534)\n"
        "server = next(one for one in find(read_table()).servers if one.main.pid == int(sys.argv[1]))\n"
        "told = look(server)\n"
        "print(told.readable, told.user, told.facts.model_path, told.cwd, told.log.readable, told.log.problem)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(pid)], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    assert done.stdout.startswith("False root /models/kimi None None Another user's: ")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_root_follows_the_servers_of_all_users(servers: Servers) -> None:
    with watching(servers) as daemon, (servers.folder / "u.log").open("w") as log:
        process = servers.start(servers.argv(free_port()), env={"FAKE_UID": "65534"}, stdout=log, stderr=log)
        launch = until_followed(daemon, process.pid, "ready")
        assert launch["log_path"] == str(servers.folder / "u.log")

        def user() -> str:
            return next(one["user"] for one in servers_now(daemon)["servers"] if one["pid"] == process.pid)

        # It may have been looked at before it became that user's; the daemon looks again.
        wait_until(lambda: user() in ("nobody", "65534"))


def test_a_port_that_a_followed_server_has_is_refused_by_its_name(servers: Servers) -> None:
    port = free_port()
    with watching(servers) as daemon:
        servers.shell(f"nohup {' '.join(servers.argv(port))} > s.log 2>&1 &")
        until_followed(daemon, servers.main(), "ready")
        body = {"argv": servers.argv(port), "cwd": str(servers.folder), "env": servers.env()}
        answer = daemon.client.post("/api/v1/launches", json=body)
        assert answer.status_code == 409
        assert answer.json()["detail"].endswith("That is L1: `sitrep stop L1` ends it.")
        assert len(launches(daemon)) == 1
        # Started by a shell all the same, it says so itself, and serves nobody.
        servers.shell(f"nohup {' '.join(servers.argv(port))} > t.log 2>&1 &")
        second = wait_until(lambda: launches(daemon)[1] if len(launches(daemon)) > 1 else None)
        failed = until_followed(daemon, second["pid"], "failed")
        assert "taken" in failed["failure"] or "in use" in failed["failure"], failed["failure"]


def test_a_session_that_is_opened_later_gets_the_server_of_its_folder(servers: Servers) -> None:
    with watching(servers) as daemon:
        servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &")
        assert "session" not in until_followed(daemon, servers.main())
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        wait_until(lambda: launches(daemon)[0].get("session") == "S1")


def test_a_log_that_was_deleted_is_read_on_from_its_descriptor(servers: Servers) -> None:
    servers.shell(f"nohup {' '.join(servers.argv(free_port()))} > s.log 2>&1 &", env={"FAKE_S": "2"})
    pid = servers.main()
    wait_until(lambda: (servers.folder / "s.log").stat().st_size)
    (servers.folder / "s.log").unlink()
    with watching(servers) as daemon:
        launch = until_followed(daemon, pid, "ready")
        assert [phase["name"] for phase in launch["phases"]][:3] == ["starting", "dist_init", "load_weights"]
        part = daemon.client.get(f"/api/v1/launches/{launch['id']}/log").json()
        assert "fired up" in part["text"]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can make namespaces")
@pytest.mark.slow
def test_a_server_in_namespaces_of_its_own_becomes_ready(servers: Servers) -> None:
    """As in a container: its port is looked for in its own network."""
    with watching(servers) as daemon, (servers.folder / "s.log").open("w") as log:
        port = free_port()
        inside = ["unshare", "--pid", "--net", "--fork", "sh", "-c", 'ip link set lo up; exec "$@"', "sh"]
        servers.start([*inside, *servers.argv(port)], stdout=log, stderr=log)
        launch = until_followed(daemon, servers.main(), "ready")
        told = next(one for one in servers_now(daemon)["servers"] if one["pid"] == launch["pid"])
        assert (told["container"], told["listening"]) == ("a container", [port])


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="only root can make namespaces")
@pytest.mark.slow
def test_of_a_namespace_without_an_engine_no_log_of_an_engine_is_promised(servers: Servers) -> None:
    with watching(servers) as daemon:
        command = shlex.join(servers.argv(free_port()))
        servers.shell(f"unshare --pid --fork sh -c {shlex.quote(f'{command} 2>&1 | cat > /dev/null; true')} &")
        pid = servers.main()
        until_followed(daemon, pid)
        told = next(one for one in servers_now(daemon)["servers"] if one["pid"] == pid)
        assert told["container"] == "a container"
        assert told["log_problem"].startswith("Its output goes to a pipe")


def test_the_log_of_a_container_engine_is_followed_as_printed(tmp_path: Path) -> None:
    path = tmp_path / "x-json.log"
    path.write_text('{"log":"one\\n"}\n{"log":"a "}\n')
    log = adopt.WrappedLog(path, None, "docker")
    assert log.read() == ["one"]
    with path.open("a") as file:
        file.write('{"log":"b\\n"}\n{"log":"half')
    assert (log.read(), log.partial) == (["a b"], "")
    none = adopt.NoLog("It prints into nothing.")
    assert (none.read(), none.at_end, none.problem) == ([], True, "It prints into nothing.")
