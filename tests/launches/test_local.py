from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.launches.fakes import PYTHON, WAITS, Room, gone, until

from sitrepd.launches.caller import caller_context
from sitrepd.launches.launchers.base import Launched, LaunchError, LaunchLog
from sitrepd.launches.launchers.local import LocalLauncher
from sitrepd.launches.processes import is_alive, process_tree, read_argv, read_stats, send_signal

TELLS = """
import json, os, resource, signal, sys
print(json.dumps(dict(
    env=dict(os.environ), cwd=os.getcwd(), umask=os.umask(0), argv=sys.argv[1:], pid=os.getpid(), sid=os.getsid(0),
    group=os.getpgid(0), nofile=resource.getrlimit(resource.RLIMIT_NOFILE),
    fds={fd: os.readlink("/proc/self/fd/" + fd) for fd in ("0", "1", "2")}, count=len(os.listdir("/proc/self/fd")),
    ignored=[int(s) for s in range(1, 32) if signal.getsignal(s) == signal.SIG_IGN],
)))
"""


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.end()


def _said(launched: Launched, text: str = "waiting") -> None:
    until(lambda: text in _text(launched.logs[0].path))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_server_runs_in_the_surroundings_of_its_caller(room: Room) -> None:
    (room.folder / "sub").mkdir()
    launched = room.launch(
        [*PYTHON, "-c", TELLS, "a b", "", "ü"],
        cwd=room.folder / "sub",
        env={"A": "1", "B": "two words", "NOT_UTF8": "\udcff"},
        umask=0o027,
        limits={"nofile": (300, 400), "core": (0, 0)},
        nice=os.getpriority(os.PRIO_PROCESS, 0),
        affinity=sorted(os.sched_getaffinity(0)),
    )
    assert room.ended(launched).exit_code == 0
    log = launched.logs[0].path
    said = json.loads(log.read_text())
    assert said["argv"] == ["a b", "", "ü"]
    assert {name: said["env"][name] for name in ("A", "B", "NOT_UTF8")} == {
        "A": "1",
        "B": "two words",
        "NOT_UTF8": "\udcff",
    }
    assert set(said["env"]) <= {"A", "B", "NOT_UTF8", "LC_CTYPE"}
    assert (said["cwd"], said["umask"], said["nofile"]) == (str(room.folder / "sub"), 0o027, [300, 400])
    assert said["fds"] == {"0": "/dev/null", "1": str(log), "2": str(log)}
    assert said["pid"] == said["sid"] == said["group"] == launched.identity.pid
    assert log.stat().st_mode & 0o777 == 0o640
    assert said["ignored"] == [signal.SIGPIPE, signal.SIGXFSZ]  # Python's own


def test_a_server_holds_no_descriptor_of_the_daemon(room: Room) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    os.set_inheritable(writer, True)
    try:
        launched = room.launch([*PYTHON, "-c", TELLS])
        supervisor = room.launch([*PYTHON, "-c", WAITS]).supervisor
        assert supervisor
        until(lambda: len(os.listdir(f"/proc/{supervisor.pid}/fd")) == 3)
        held = {fd: os.readlink(f"/proc/{supervisor.pid}/fd/{fd}") for fd in ("0", "1", "2")}
    finally:
        os.close(reader)
        os.close(writer)
    room.ended(launched)
    assert json.loads(launched.logs[0].path.read_text())["count"] == 4  # 0, 1, 2 and the listing's own
    assert held == {"0": "/dev/null", "1": "/dev/null", "2": "/dev/null"}


def test_the_environment_is_never_written_down(room: Room) -> None:
    launched = room.launch([*PYTHON, "-c", WAITS], env={"TOKEN": "hf_secret_value"})
    assert launched.supervisor
    files = [path.read_text() for path in room.folder.rglob("*") if path.is_file()]
    assert not any("hf_secret_value" in text for text in files)
    for name in ("cmdline", "environ"):
        assert b"hf_secret" not in Path(f"/proc/{launched.supervisor.pid}/{name}").read_bytes()
    assert (room.folder / "state0").stat().st_mode & 0o777 == 0o700


def test_what_the_machine_refuses_is_a_warning(room: Room) -> None:
    launched = room.launch(["true"], limits={"sorrow": (1, 1)}, affinity=[100000])
    assert launched.warnings == (
        "This system knows no limit sorrow.",
        "The caller's processors [100000] cannot be had here.",
    )


def test_limits_of_the_caller_may_be_sent_as_they_are(room: Room) -> None:
    context = caller_context()
    launched = room.launch([*PYTHON, "-c", TELLS], **context | {"cwd": Path(context["cwd"])})
    room.ended(launched)
    said = json.loads(launched.logs[0].path.read_text())
    assert tuple(said["nofile"]) == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert said["cwd"] == os.getcwd()
    assert json.loads(json.dumps(context)) == context | {"limits": {k: list(v) for k, v in context["limits"].items()}}


DAEMON = """
import json, os, sys
from pathlib import Path
from sitrepd.launches.launchers.base import LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher
folder, argv = Path(sys.argv[1]), json.loads(sys.argv[2])
LocalLauncher().launch(LaunchRequest(folder / "state", folder / "log", folder, dict(os.environ), argv=argv))
print("launched", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [signal.SIGUSR1, signal.SIGKILL])
def test_a_server_outlives_a_killed_daemon_and_the_next_one_learns_its_exit(tmp_path: Path, ending: int) -> None:
    argv = json.dumps([*PYTHON, "-c", WAITS])
    daemon = subprocess.Popen(
        [sys.executable, "-c", DAEMON, str(tmp_path), argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with daemon:
        assert daemon.stdout
        assert daemon.stdout.readline() == b"launched\n"
        os.killpg(daemon.pid, signal.SIGKILL)
    launcher = LocalLauncher()
    launched = launcher.adopt(tmp_path / "state")
    assert launched.logs == (LaunchLog(tmp_path / "log", "both", False),)
    _said(launched)
    assert launcher.poll(launched) is None
    assert launcher.signal(launched, ending)
    ended = until(lambda: LocalLauncher().poll(launched))
    expected = (7, None) if ending == signal.SIGUSR1 else (None, signal.SIGKILL)
    assert (ended.known, ended.exit_code, ended.signal) == (True, *expected)
    assert ended.ended_at
    assert ended.ended_at >= launched.started_at
    assert ended.max_rss_bytes
    assert ended.max_rss_bytes > 1 << 20
    assert LocalLauncher().poll(LocalLauncher().adopt(tmp_path / "state")) == ended


def test_a_daemon_killed_during_the_start_leaves_a_launch_to_adopt_or_none(tmp_path: Path) -> None:
    argv = json.dumps([*PYTHON, "-c", WAITS])
    launcher = LocalLauncher()
    for number in range(8):
        folder = tmp_path / str(number)
        folder.mkdir()
        code = DAEMON.replace("LocalLauncher().launch", "print('now', flush=True); LocalLauncher().launch")
        with subprocess.Popen(
            [sys.executable, "-c", code, str(folder), argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as daemon:
            assert daemon.stdout
            daemon.stdout.readline()
            try:
                daemon.wait(number * 0.006)
            except subprocess.TimeoutExpired:
                daemon.kill()
        try:
            launched = launcher.adopt(folder / "state")
        except LaunchError:
            assert _concerned(folder) == []
            continue
        assert is_alive(launched.identity)
        assert launched.supervisor
        assert _concerned(folder) == [launched.supervisor.pid]
        launcher.kill(launched)


def _concerned(folder: Path) -> list[int]:
    """The processes whose arguments name the folder: the daemon, what it has forked, the supervisor."""
    return [pid for pid in read_stats() if any(str(folder) in word for word in read_argv(pid))]


def test_the_supervisor_ignores_what_is_meant_for_the_daemon(room: Room) -> None:
    launched = room.launch([*PYTHON, "-c", WAITS])
    _said(launched)
    assert launched.supervisor
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        assert send_signal(launched.supervisor, signum)
    room.launcher.signal(launched, signal.SIGUSR1)
    assert room.ended(launched).exit_code == 7


def test_without_its_supervisor_the_exit_is_said_to_be_unknown(room: Room) -> None:
    launched = room.launch([*PYTHON, "-c", WAITS])
    _said(launched)
    assert launched.supervisor
    send_signal(launched.supervisor, signal.SIGKILL)
    until(lambda: gone(launched.supervisor.pid))
    assert room.launcher.poll(launched) is None
    room.launcher.signal(launched, signal.SIGUSR1)
    ended = room.ended(launched)
    assert not ended.known
    assert ended.reason == "Its supervisor was killed before it could write down how it ended."


def test_the_supervisor_is_gone_when_nothing_of_the_launch_is_left(room: Room) -> None:
    launched = room.launch(["true"])
    assert launched.supervisor
    assert room.ended(launched).exit_code == 0
    until(lambda: gone(launched.supervisor.pid))


def test_a_process_with_the_same_pid_is_never_touched(room: Room) -> None:
    launched = room.launch([*PYTHON, "-c", WAITS])
    _said(launched)
    other = replace(
        launched, identity=replace(launched.identity, start_ticks=launched.identity.start_ticks - 1), supervisor=None
    )
    assert not room.launcher.signal(other, signal.SIGKILL)
    assert room.launcher.kill(other) == []
    assert room.launcher.tree(other) == {}
    earlier = replace(launched, identity=replace(launched.identity, boot_id="another"))
    assert not room.launcher.signal(earlier, signal.SIGKILL)
    assert room.launcher.kill(earlier) == []
    ended = room.launcher.poll(earlier)
    assert ended
    assert ended.reason == "The machine was restarted."
    assert is_alive(launched.identity)


ORPHANS = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        code = "import os, time; print('rank', os.getpid(), flush=True); time.sleep(600)"
        os.execv(sys.executable, ["sglang::scheduler_TP11", "-ISc", code])
    os._exit(0)
os.wait()
while "rank" not in open(sys.argv[1]).read(): time.sleep(0.01)
os._exit(3)
"""


def test_ranks_that_outlive_the_server_are_recorded_and_can_be_killed(room: Room) -> None:
    log = room.folder / "log"
    launched = room.launch([*PYTHON, "-c", ORPHANS, str(log)], log_path=log)
    ended = room.ended(launched)
    rank = int(log.read_text().split()[1])
    assert ended.exit_code == 3
    assert [(leftover.pid, leftover.name) for leftover in ended.leftovers] == [(rank, "sglang::scheduler_TP11")]
    assert list(room.launcher.tree(launched)) == [rank]
    assert room.launcher.kill(launched) == [rank]
    until(lambda: gone(rank))


def test_a_shell_that_stays_passes_signals_on_to_its_server(room: Room) -> None:
    (room.folder / "serve.py").write_text(WAITS)
    text = f"{sys.executable} -IS serve.py > out.log; echo ended $? > after.txt"
    launched = room.launch(command=text)
    assert launched.shell
    logs = (LaunchLog(room.folder / "log0", "stderr", False), LaunchLog(room.folder / "out.log", "stdout", False))
    assert launched.logs == room.launcher.adopt(room.folder / "state0").logs == logs
    until(lambda: "waiting" in _text(room.folder / "out.log"))
    assert room.launcher.logs(launched) == logs
    assert len(process_tree(launched.identity, launched.supervisor)) == 2
    assert room.launcher.signal(launched, signal.SIGUSR1)
    assert room.ended(launched).exit_code == 0
    assert (room.folder / "after.txt").read_text() == "ended 7\n"


def test_logs_of_a_shell_that_redirects_unseen_are_found_while_it_runs(room: Room) -> None:
    (room.folder / "serve.py").write_text(WAITS)
    launched = room.launch(command=f"eval '{sys.executable} -IS serve.py > out.log 2>&1'")
    until(lambda: "waiting" in _text(room.folder / "out.log"))
    assert room.launcher.adopt(room.folder / "state0").logs == (LaunchLog(room.folder / "log0", "both", False),)
    assert room.launcher.logs(launched) == (LaunchLog(room.folder / "out.log", "both", True),)


def test_logs_are_where_the_output_really_goes(room: Room) -> None:
    (room.folder / "serve.py").write_text(WAITS)
    (room.folder / "serve.py").chmod(0o755)
    text = f"D=$(date +%Y); {sys.executable} -IS serve.py > out-$D.log 2> err-$(echo x).log"
    launched = room.launch(command=text)
    (out,) = room.folder.glob("out-2*.log")
    assert launched.logs == (LaunchLog(room.folder / "err-x.log", "stderr", True), LaunchLog(out, "stdout", True))
    assert room.launcher.logs(launched) == launched.logs


def test_the_log_is_appended_to_or_emptied_as_told(room: Room) -> None:
    log = room.folder / "log"
    log.write_text("before\n")
    room.ended(room.launch(["echo", "one"], log_path=log, append=True))
    assert log.read_text() == "before\none\n"
    room.ended(room.launch(["echo", "two"], log_path=log))
    assert log.read_text() == "two\n"


def test_an_exit_at_once_is_an_exit_not_a_failed_start(room: Room) -> None:
    assert room.ended(room.launch(command="sh -c 'exit 3'")).exit_code == 3
    assert room.ended(room.launch(command="sh -c 'kill -9 $$'")).signal == signal.SIGKILL
