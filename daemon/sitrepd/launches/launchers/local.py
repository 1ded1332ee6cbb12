"""The launcher of this machine: starts servers through `supervise.py` and reads what it writes down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sitrepd.launches import supervise
from sitrepd.launches.command import ShellCommand, check_executable, parse_command, runnable_script
from sitrepd.launches.launchers.base import (
    Exit,
    Launched,
    LaunchError,
    LaunchLog,
    LaunchRequest,
    Leftover,
    LogKind,
    ProcessIdentity,
)
from sitrepd.launches.outputs import stdout_target
from sitrepd.launches.processes import (
    SHELLS,
    Stat,
    boot_id,
    identity_of,
    is_alive,
    process_tree,
    read_stat,
    send_signal,
    server_in_shell,
)

_LATE_STATUS_S = 0.5
_LATE_START_S = 2.0
_YOUNG_S = 30.0
_DESCRIPTORS: dict[LogKind, int] = {"stderr": 2, "stdout": 1}


class LocalLauncher:
    """Starts servers on this machine; holds no state, so that any instance speaks about any launch."""

    def __init__(self, *, python: str = sys.executable, timeout_s: float = 20.0) -> None:
        self._python = python
        self._timeout_s = timeout_s

    def launch(self, request: LaunchRequest) -> Launched:
        """Start the server, and return once it has been executed (or a shell has begun to prepare it).

        Raises CommandError or LaunchError when it could not be; after LaunchError("timeout") `adopt` tells later.
        """
        job = _plan(request)
        _make_state_dir(request.state_dir)
        status = self._supervised(request.state_dir, job)
        launched = _launched(status, request.state_dir)
        return replace(launched, logs=self.logs(launched))

    def _supervised(self, state_dir: Path, job: dict[str, Any]) -> dict[str, Any]:
        process = subprocess.Popen(
            [self._python, "-I", "-S", supervise.__file__, str(state_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH", "SYSTEMROOT") if name in os.environ},
            start_new_session=True,
        )
        with process:
            try:
                output, _ = process.communicate(json.dumps(job).encode(), self._timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise LaunchError("timeout", f"The start of the server took over {self._timeout_s:g} s.") from None
        try:
            status: dict[str, Any] = json.loads(output)
        except ValueError:
            said = output.decode(errors="replace").strip() or "it said nothing"
            raise LaunchError("internal", f"The supervisor did not start: {said}") from None
        return status

    def poll(self, launched: Launched) -> Exit | None:
        """None while the main process lives, or its exit status is still being written."""
        if launched.identity.boot_id != boot_id():
            return Exit(known=False, reason="The machine was restarted.")
        if is_alive(launched.identity):
            return None
        if launched.state_dir is None or launched.supervisor is None:
            return Exit(known=False, reason="It does not run below Sitrep, so nobody saw how it ended.")
        deadline = time.monotonic() + _LATE_STATUS_S
        while True:
            supervised = is_alive(launched.supervisor)
            try:
                ended = _exit(_read_status(launched.state_dir))
            except LaunchError as error:
                return Exit(known=False, reason=error.detail)
            if ended:
                return ended
            if not supervised:
                return Exit(known=False, reason="Its supervisor was killed before it could write down how it ended.")
            if time.monotonic() > deadline:
                return None
            time.sleep(0.005)

    def signal(self, launched: Launched, signum: int) -> bool:
        """Send a signal to the server's main process alone (below its shell, if it has one)."""
        target = server_in_shell(launched.identity) if launched.shell else launched.identity
        return target is not None and send_signal(target, signum)

    def tree(self, launched: Launched, known: Iterable[ProcessIdentity] = ()) -> dict[int, Stat]:
        """The living processes of the launch by pid, orphaned ranks included."""
        return process_tree(launched.identity, launched.supervisor, known)

    def identities(self, launched: Launched) -> tuple[ProcessIdentity, ...]:
        """The processes of the launch now, to be remembered for `kill`."""
        return tuple(identity_of(stat) for stat in self.tree(launched).values())

    def kill(self, launched: Launched, known: Iterable[ProcessIdentity] = ()) -> list[int]:
        """SIGKILL to the group and to each living process of the launch, `known` ones too; the pids that got it."""
        known = tuple(known)
        tree = self.tree(launched, known)
        members = [pid for pid, stat in tree.items() if stat.group == launched.identity.pid]
        if members:
            try:
                os.killpg(launched.identity.pid, signal.SIGKILL)
            except ProcessLookupError:
                members = []
        others = [pid for pid in tree if pid not in members]
        return sorted(members + [pid for pid in others if send_signal(identity_of(tree[pid]), signal.SIGKILL)])

    def logs(self, launched: Launched) -> tuple[LaunchLog, ...]:
        """The files that carry its output, standard error first: by its descriptors while it runs, else as told."""
        server = server_in_shell(launched.identity) if launched.shell else launched.identity
        stat = read_stat(server.pid) if server and is_alive(server) else None
        if stat is None or stat.name in SHELLS:  # a shell may yet redirect what it starts
            return launched.logs
        return _actual_logs(stat.pid, launched.logs)

    def adopt(self, state_dir: Path) -> Launched:
        """Take up again what an earlier daemon started in this folder, whether it still runs or not.

        A daemon killed in the middle of a start may leave a supervisor that is only about to start the server: a young
        folder without a status is waited for.
        """
        deadline = time.monotonic() + _LATE_START_S
        while (status := _read_status(state_dir)) is None and _is_young(state_dir) and time.monotonic() < deadline:
            time.sleep(0.01)
        if status is None:
            raise LaunchError("state_folder", f"Nothing was started in {state_dir}.")
        return _launched(status, state_dir)


def _plan(request: LaunchRequest) -> dict[str, Any]:
    """The job for the supervisor."""
    log_path = str(request.cwd / request.log_path)
    if (request.command is None) == (request.argv is None):
        raise LaunchError("command", "Either a command line or argv, not both and not neither.")
    if request.argv is not None:
        return _job(request, log_path, _checked(request.argv), execs=False)
    command = parse_command(request.command or "", request.env, str(request.cwd))
    check_executable(command)
    shell = shutil.which("bash", path=request.env.get("PATH")) or shutil.which("bash") or "/bin/sh"
    argv = [shell, "-c", runnable_script(command)]
    logs = _told_logs(command, _default_log(request))
    job = _job(request, log_path, argv, execs=command.execs)
    job |= {"shell": not command.execs, "told_logs": [_log_json(log) for log in logs]}
    job["quote_logs"] = list(dict.fromkeys([log_path, *(str(log.path) for log in logs)]))
    return job


def _checked(argv: Sequence[str]) -> list[str]:
    if not argv or not argv[0]:
        raise LaunchError("command", "argv is empty: its first word is the program.")
    if any("\0" in word for word in argv):
        raise LaunchError("command", "argv has a word with a NUL byte in it.")
    return list(argv)


def _job(request: LaunchRequest, log_path: str, argv: list[str], *, execs: bool) -> dict[str, Any]:
    if not request.cwd.is_absolute():
        raise LaunchError("folder_missing", f"The working directory must be absolute: {request.cwd}.")
    return {
        "argv": argv,
        "env": dict(request.env),
        "cwd": str(request.cwd),
        "umask": request.umask,
        "limits": {name: list(pair) for name, pair in request.limits.items()},
        "nice": request.nice,
        "affinity": list(request.affinity) if request.affinity is not None else None,
        "log_path": log_path,
        "append": request.append,
        "told_logs": [_log_json(_default_log(request))],
        "quote_logs": [log_path],
        "execs": execs,
        "shell": False,
    }


def _default_log(request: LaunchRequest) -> LaunchLog:
    return LaunchLog(request.cwd / request.log_path, "both", request.append)


def _told_logs(command: ShellCommand, default: LaunchLog) -> tuple[LaunchLog, ...]:
    """Where the text sends the two streams; what it says nothing of goes to the default log."""
    if not command.understood:
        return (default,)
    streams: list[tuple[LogKind, str | None, str | None, bool]] = [
        ("stderr", command.stderr_raw, command.stderr_path, command.stderr_append),
        ("stdout", command.log_raw, command.log_path, command.append),
    ]
    logs = []
    for kind, raw, path, append in streams:
        if raw is None:
            logs.append(replace(default, kind=kind))
        elif path:
            logs.append(LaunchLog(Path(path), kind, append))
    if len(logs) == 2 and logs[0].path == logs[1].path:
        return (replace(logs[0], kind="both"),)
    return tuple(logs)


def _log_json(log: LaunchLog) -> dict[str, Any]:
    return {"path": str(log.path), "kind": log.kind, "append": log.append}


def _actual_logs(pid: int, told: tuple[LaunchLog, ...]) -> tuple[LaunchLog, ...]:
    targets = {kind: stdout_target(pid, number) for kind, number in _DESCRIPTORS.items()}
    paths = {kind: target.path for kind, target in targets.items() if target.path and not target.deleted}
    appended = {os.path.realpath(log.path): log.append for log in told}
    if not paths or set(paths.values()) == set(appended):
        return told
    if len(set(paths.values())) == 1 and len(paths) == 2:
        paths = {"both": paths["stderr"]}
    return tuple(LaunchLog(Path(path), kind, appended.get(path, True)) for kind, path in paths.items())


def _make_state_dir(state_dir: Path) -> None:
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LaunchError("state_folder", f"{state_dir} cannot be made: {error.strerror}.") from error


def _is_young(state_dir: Path) -> bool:
    try:
        return time.time() - state_dir.stat().st_mtime < _YOUNG_S
    except OSError:
        return False


def _read_status(state_dir: Path) -> dict[str, Any] | None:
    try:
        status: dict[str, Any] = json.loads((state_dir / supervise.STATUS_NAME).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise LaunchError("state_folder", f"The status in {state_dir} cannot be read: {error}.") from error
    return status


def _launched(status: dict[str, Any], state_dir: Path) -> Launched:
    if status["state"] == "failed":
        raise LaunchError(status["error"]["kind"], status["error"]["message"])
    return Launched(
        identity=_identity(status, status["boot_id"]),
        started_at=datetime.fromtimestamp(status["started_at"], UTC),
        logs=tuple(LaunchLog(Path(log["path"]), log["kind"], log["append"]) for log in status["logs"]),
        supervisor=_identity(status["supervisor"], status["boot_id"]),
        state_dir=state_dir,
        shell=status["shell"],
        warnings=tuple(status["warnings"]),
    )


def _identity(process: dict[str, Any], boot: str) -> ProcessIdentity:
    return ProcessIdentity(os.uname().nodename, process["pid"], process["start_ticks"], boot)


def _exit(status: dict[str, Any] | None) -> Exit | None:
    if status is None or "ended_at" not in status:
        return None
    return Exit(
        known=True,
        exit_code=status.get("exit_code"),
        signal=status.get("signal"),
        ended_at=datetime.fromtimestamp(status["ended_at"], UTC),
        max_rss_bytes=status.get("max_rss_bytes"),
        cpu_s=status.get("cpu_s"),
        leftovers=tuple(Leftover(**leftover) for leftover in status.get("leftovers", ())),
        reason=status["error"]["message"] if "error" in status else None,
    )
