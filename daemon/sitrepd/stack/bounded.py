from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_BLOCK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Ran:
    """What a short-lived child printed; `reason` is set when it could not be run to its end or failed."""

    output: str
    reason: str | None = None


def run_bounded(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | Path,
    timeout_s: float,
    limit_bytes: int = 1 << 20,
) -> Ran:
    """Never raises; a child that takes or prints too much is killed with all that it started."""
    try:
        child = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return Ran("", f"{argv[0]} cannot be run: {_cause(error, cwd)}")
    with child:
        stopped, output, errors = _read(child, timeout_s, limit_bytes)
        if stopped is not None:
            _kill_group(child)
    if stopped is not None:
        return Ran(output, f"{argv[0]} {stopped}")
    if child.returncode:
        last = errors.strip().splitlines()[-1:] or ["it printed nothing"]
        return Ran(output, f"{argv[0]} failed with exit code {child.returncode}: {last[0][:300]}")
    return Ran(output)


def _read(child: subprocess.Popen[bytes], timeout_s: float, limit_bytes: int) -> tuple[str | None, str, str]:
    """(why it must be killed, standard output, standard error)"""
    deadline = time.monotonic() + timeout_s
    printed = {1: bytearray(), 2: bytearray()}
    stopped = None
    with selectors.DefaultSelector() as selector:
        for number, pipe in ((1, child.stdout), (2, child.stderr)):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, number)
        while stopped is None and selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            for key, _ in ready:
                block = os.read(key.fd, _BLOCK_BYTES)
                printed[key.data] += block
                if not block:
                    selector.unregister(key.fileobj)
            if not ready and time.monotonic() >= deadline:
                stopped = f"did not finish within {timeout_s:g} s"
            elif max(map(len, printed.values())) > limit_bytes:
                stopped = f"printed more than {limit_bytes} bytes"
    if stopped is None and _still_running(child, deadline):
        stopped = f"did not finish within {timeout_s:g} s"
    return stopped, *(bytes(text).decode(errors="replace") for text in printed.values())  # type: ignore[return-value]


def _still_running(child: subprocess.Popen[bytes], deadline: float) -> bool:
    try:
        child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return True
    return False


def _kill_group(child: subprocess.Popen[bytes]) -> None:
    # The child is not yet waited for, so its number, and with it the group's, is still its own.
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)


def _cause(error: OSError | ValueError, cwd: str | Path) -> str:
    if isinstance(error, ValueError):
        return str(error)
    if not os.path.isdir(cwd):
        return f"its working directory {cwd} does not exist"
    return os.strerror(error.errno) if error.errno else str(error)
