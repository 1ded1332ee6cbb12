"""The parent of one server: starts it, outlives the daemon, and writes down how the server ended.

Run as `python -I -S supervise.py STATE_DIR` with the job as JSON on standard input; it answers with one JSON object on
standard output (the same that it keeps in STATE_DIR/status.json) and goes on alone. Standard library only, and all
imports at the top: it must start in milliseconds, and the installation may be replaced while it runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import resource
import signal
import sys
import time
from typing import Any, NoReturn

STATUS_NAME = "status.json"
_PR_SET_CHILD_SUBREAPER = 36
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_MOST_TITLE = 80
_QUOTED_BYTES = 2000
_SETTLE_S = 2.0

Job = dict[str, Any]
Status = dict[str, Any]
Usage = resource.struct_rusage


class _StartError(Exception):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main() -> NoReturn:
    """Read the job, detach from whoever gave it, and stay until the server and its descendants have ended."""
    state_dir = os.path.abspath(sys.argv[1])
    job: Job = json.loads(sys.stdin.buffer.read())
    if os.fork():
        os._exit(0)
    _detach()
    status: Status = {"version": 1, "state": "starting", "boot_id": _boot_id(), "supervisor": _process(os.getpid())}
    status |= {"logs": job["told_logs"], "shell": job["shell"], "warnings": []}
    try:
        pid = _start(state_dir, job, status)
    except _StartError as error:
        status |= {"state": "failed", "error": {"kind": error.kind, "message": str(error)}, "ended_at": time.time()}
        if error.kind != "state_folder":
            _write(state_dir, status, durable=True)
        _report(status)
        os._exit(1)
    ended = _settle(pid, job) if job["execs"] else None
    if ended:
        _finish(state_dir, status, job, pid, *ended)
        _report(status)
    else:
        _report(status)
        _finish(state_dir, status, job, pid, *_wait(pid))
    _reap_the_rest()
    os._exit(0)


def _detach() -> None:
    os.setsid()
    os.chdir("/")
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2]:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGPIPE, signal.SIGTSTP):
        signal.signal(signum, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _report(status: Status) -> None:
    """Answer the caller, who may be gone, and let go of the descriptors that it gave."""
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(status).encode() + b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _start(state_dir: str, job: Job, status: Status) -> int:
    if os.path.exists(os.path.join(state_dir, STATUS_NAME)):
        raise _StartError("state_folder", f"{state_dir} already belongs to another launch.")
    job["offsets"] = {path: _size(path) for path in job["quote_logs"]}
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        _become_server(job, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = [json.loads(line) for line in pipe]
    status |= {"state": "running", "started_at": time.time(), **_process(pid)}
    for line in answer:
        status["warnings"] += line.get("warnings", [])
        if "error" in line:
            os.waitpid(pid, 0)
            raise _StartError(*line["error"])
    _write(state_dir, status)
    return pid


def _become_server(job: Job, writer: int) -> NoReturn:
    """Take on the caller's surroundings and execute; what goes wrong travels through the pipe that exec closes."""
    try:
        os.setsid()
        _tell(writer, warnings=_surroundings(job))
        _standard_streams(job)
        _enter(job["cwd"])
        for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _execute(job["argv"], {os.fsencode(key): os.fsencode(value) for key, value in job["env"].items()})
    except _StartError as error:
        _tell(writer, error=[error.kind, str(error)])
    except BaseException as error:
        _tell(writer, error=["internal", f"{type(error).__name__}: {error}"])
    os._exit(127)


def _tell(writer: int, **what: list[str]) -> None:
    os.write(writer, json.dumps(what).encode() + b"\n")


def _surroundings(job: Job) -> list[str]:
    """Apply umask, limits, niceness and processors; what this machine refuses is a warning, not an end."""
    warnings = []
    if job["umask"] is not None:
        os.umask(job["umask"])
    for name, told in job["limits"].items():
        warnings += _limit(name, *told)
    if job["nice"] is not None and job["nice"] != os.getpriority(os.PRIO_PROCESS, 0):
        try:
            os.setpriority(os.PRIO_PROCESS, 0, job["nice"])
        except OSError:
            warnings.append(f"nice {job['nice']} was refused; it runs at {os.getpriority(os.PRIO_PROCESS, 0)}.")
    if job["affinity"] is not None:
        try:
            os.sched_setaffinity(0, job["affinity"])
        except (OSError, ValueError, OverflowError):
            warnings.append(f"The caller's processors {job['affinity']} cannot be had here.")
    return warnings


def _limit(name: str, soft: int, hard: int) -> list[str]:
    number = getattr(resource, f"RLIMIT_{name.upper()}", None)
    if number is None:
        return [f"This system knows no limit {name}."]
    if resource.getrlimit(number) == (soft, hard):
        return []
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError):
        ceiling = resource.getrlimit(number)[1]
        lowered = tuple(_lower(value, ceiling) for value in (soft, hard))
        resource.setrlimit(number, (lowered[0], lowered[1]))
        return [f"The limit {name} of the caller ({_told(soft)}) is above the daemon's own; it is {_told(lowered[0])}."]
    return []


def _lower(value: int, ceiling: int) -> int:
    if ceiling == resource.RLIM_INFINITY:
        return value
    return ceiling if value == resource.RLIM_INFINITY else min(value, ceiling)


def _told(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else str(limit)


def _standard_streams(job: Job) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY | os.O_NONBLOCK
    try:
        log = os.open(job["log_path"], flags | (0 if job["append"] else os.O_TRUNC), 0o666)
    except OSError as error:
        raise _log_error(job["log_path"], error) from error
    os.set_blocking(log, True)
    for descriptor, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, descriptor)


def _log_error(path: str, error: OSError) -> _StartError:
    folder = os.path.dirname(path)
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.isdir(folder):
        return _StartError("log_folder_missing", f"The log's folder does not exist: {folder}. Create it first.")
    return _StartError("log_not_writable", f"The log {path} cannot be written: {error.strerror}.")


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except (FileNotFoundError, NotADirectoryError):
        raise _StartError("folder_missing", f"The working directory does not exist: {cwd}.") from None
    except OSError as error:
        raise _StartError("permission", f"The working directory {cwd} cannot be entered: {error.strerror}.") from error


def _execute(argv: list[str], env: dict[bytes, bytes]) -> NoReturn:
    program, path = argv[0], os.fsdecode(env.get(b"PATH", os.fsencode(_DEFAULT_PATH)))
    refused: OSError | None = None
    places = [program] if "/" in program else [os.path.join(folder, program) for folder in path.split(":")]
    for place in places:
        try:
            os.execve(place, argv, env)
        except (FileNotFoundError, NotADirectoryError):
            if "/" in program and os.path.exists(place):
                raise _StartError("program_not_found", _interpreter_missing(place)) from None
        except OSError as error:
            refused = refused or error
            refused.filename = refused.filename or place
    if refused is None:
        where = f"; PATH searched: {path}" if "/" not in program else f" (in {os.getcwd()})" * (program[0] != "/")
        raise _StartError("program_not_found", f"No such program: {program}{where}.")
    raise _StartError("permission", _refusal(refused))


def _refusal(error: OSError) -> str:
    path = os.fsdecode(error.filename)
    if error.errno == errno.ENOEXEC:
        return f"{path} is not a program: it has no #! line and is no binary of this machine."
    if error.errno == errno.EACCES and os.path.isdir(path):
        return f"{path} is a folder, not a program."
    if error.errno == errno.EACCES and not os.access(path, os.X_OK):
        return f"{path} is not executable: chmod +x it, or start it by its interpreter."
    return f"{path} cannot be executed: {error.strerror}."


def _interpreter_missing(path: str) -> str:
    with open(path, "rb") as file:
        line = file.readline(256).decode(errors="replace").strip()
    if line.startswith("#!"):
        return f"{path} needs {line[2:].strip()}, which does not exist."
    return f"{path} needs a loader that does not exist on this machine."


def _settle(pid: int, job: Job) -> tuple[int, Usage] | None:
    """Wait, bounded, until the shell has become the server; a tuple when it ended before that was seen."""
    shell = b"".join(os.fsencode(word) + b"\0" for word in job["argv"])
    pause, deadline = 0.001, time.monotonic() + _SETTLE_S
    while time.monotonic() < deadline:
        done, wait_status, usage = os.wait4(-1, os.WNOHANG)
        if done == pid:
            return wait_status, usage
        if not done:
            if _cmdline(pid) not in (shell, b""):
                job["seen"] = True
                return None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
    return None


def _wait(pid: int) -> tuple[int, Usage]:
    while True:
        done, wait_status, usage = os.wait4(-1, 0)
        if done == pid:
            return wait_status, usage


def _finish(state_dir: str, status: Status, job: Job, pid: int, wait_status: int, usage: Usage) -> None:
    code = os.waitstatus_to_exitcode(wait_status)
    status |= {
        "state": "exited",
        "exit_code": code if code >= 0 else None,
        "signal": -code if code < 0 else None,
        "ended_at": time.time(),
        "max_rss_bytes": usage.ru_maxrss * 1024,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "leftovers": _descendants(pid),
    }
    if code in (126, 127) and job["execs"] and not job.get("seen"):
        kind = "permission" if code == 126 else "program_not_found"
        status |= {"state": "failed", "error": {"kind": kind, "message": _shell_failure(code, job)}}
    _write(state_dir, status, durable=True)


def _shell_failure(code: int, job: Job) -> str:
    said = " ".join(filter(None, (_written(path, offset) for path, offset in job["offsets"].items())))
    return f"The shell could not start the program (exit code {code}): {said or 'it said nothing'}"


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _written(path: str, offset: int) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(min(offset, os.fstat(file.fileno()).st_size))
            text = file.read(_QUOTED_BYTES) or (file.seek(0), file.read(_QUOTED_BYTES))[1]
    except OSError:
        return ""
    return text.decode(errors="replace").strip()


def _reap_the_rest() -> None:
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def _descendants(main: int) -> list[Status]:
    """What still lives below this process or in the server's session, zombies left out."""
    stats = {int(name): stat for name in os.listdir("/proc") if name.isdigit() and (stat := _stat(int(name)))}
    found = {os.getpid()}
    while more := {pid for pid, stat in stats.items() if int(stat[2]) in found or int(stat[4]) == main} - found:
        found |= more
    found -= {os.getpid(), main}
    living = sorted(pid for pid in found if stats[pid][1] not in "ZX")
    return [{"pid": pid, "start_ticks": int(stats[pid][20]), "name": _name(pid, stats[pid][0])} for pid in living]


def _name(pid: int, short: str) -> str:
    """The title that a rank has given itself, `sglang::scheduler_TP1`: the kernel's name ends after 15 characters."""
    title = _cmdline(pid).partition(b"\0")[0].decode(errors="replace").strip()
    return title if "::" in title and len(title) < _MOST_TITLE and " " not in title else short


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the name on: name, state, ppid, pgrp, session, …; the start in ticks is [20]."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            head, _, rest = file.read().decode(errors="replace").rpartition(")")
    except OSError:
        return None
    return [head.partition("(")[2], *rest.split()]


def _process(pid: int) -> Status:
    stat = _stat(pid)
    ticks = int(stat[20]) if stat else 0
    return {"pid": pid, "start_ticks": ticks, "create_time": _boot_time() + ticks / os.sysconf("SC_CLK_TCK")}


def _cmdline(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def _boot_time() -> float:
    with open("/proc/stat", "rb") as file:
        return next((float(line.split()[1]) for line in file if line.startswith(b"btime")), 0.0)


def _write(state_dir: str, status: Status, *, durable: bool = False) -> None:
    """Replace the status file in one step; a full disk is waited out, a removed folder is nobody's loss."""
    while True:
        try:
            return _replace(state_dir, status, durable)
        except FileNotFoundError:
            return None
        except OSError:
            if not durable:
                return None
            time.sleep(5)


def _replace(state_dir: str, status: Status, durable: bool) -> None:
    path = os.path.join(state_dir, STATUS_NAME)
    with open(os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(status, file)
        file.flush()
        if durable:
            os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    if durable:
        folder = os.open(state_dir, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


if __name__ == "__main__":
    main()
