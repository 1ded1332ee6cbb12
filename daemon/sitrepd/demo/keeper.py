"""`python -m sitrepd.demo.keeper`: keeps the demo's daemon and folder, and ends all of it when the demo ends or dies.

The demo holds the other end of standard input and says nothing: its end is the end. Whatever the daemon starts, and
whatever that starts, stays below this process, so that nothing of it can be left. It reports by JSON lines.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_S = 5.0
_GIVE_UP_S = 20.0
_LOOK_EVERY_S = 0.2
_LAST_WORDS_BYTES = 2000


class _Told(BaseException):
    """A signal asks this process to end."""


def main() -> int:
    """Run the demo's daemon in a folder of its own until standard input ends, the daemon ends or a signal comes."""
    adopt_orphans()
    for signum in ENDING:
        signal.signal(signum, _end)
    folder: Path | None = None
    try:
        folder = Path(tempfile.mkdtemp(prefix="sitrep-demo-"))
        daemon = _start(folder)
        _say(folder=str(folder), daemon=daemon.pid)
        _wait(daemon)
        if daemon.returncode is not None:
            _say(ended=f"status {daemon.returncode}", said=_last_words(folder))
    except OSError as error:
        _say(ended="not started", said=f"The demo's folder cannot be made: {error.strerror or error}.")
    except _Told:
        pass
    finally:
        ignore_signals()
        end_all(folder)
    return 0


def ignore_signals() -> None:
    """For the end, which is to be finished."""
    for signum in ENDING:
        signal.signal(signum, signal.SIG_IGN)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Told


def adopt_orphans() -> None:
    """From now on a process below this one whose parent ends becomes a child of this one, not of init."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def environment(folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """The daemon's environment: settings of the demo's own, none of the user's."""
    own = {
        "CONFIG": os.devnull,
        "DATA_DIR": str(folder / "store"),
        "HOST": "127.0.0.1",
        "PORT": "0",
        "IDLE_AFTER_S": "3",
        "IDLE_CHECK_S": "0.5",
        "LINK_TTL_S": "86400",
        "ALLOW_NETWORK_FILESYSTEM": "true",
        "ADOPT": "false",
    }
    others = {name: value for name, value in inherited.items() if not name.startswith("SITREP_")}
    return others | {f"SITREP_{name}": value for name, value in own.items()}


def _start(folder: Path) -> subprocess.Popen[bytes]:
    """The same program that `sitrep serve` is; it ends with this process even if that is killed."""
    with (folder / "daemon.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "sitrepd.cli", "serve"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env=environment(folder, os.environ),
            preexec_fn=_end_with_parent,
        )


def _wait(daemon: subprocess.Popen[bytes]) -> None:
    while daemon.poll() is None:
        readable, _, _ = select.select([0], [], [], _LOOK_EVERY_S)
        if readable and not os.read(0, 4096):
            return


def end_all(folder: Path | None) -> None:
    """End every process below this one, politely at first, and remove the folder."""
    began = time.monotonic()
    asked: set[int] = set()
    while below := psutil.Process().children(recursive=True):
        waited_s = time.monotonic() - began
        if waited_s > _GIVE_UP_S:
            break
        for process in below:
            if waited_s > _GRACE_S or process.pid not in asked:
                asked.add(process.pid)
                with suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL if waited_s > _GRACE_S else signal.SIGTERM)
        with suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
        time.sleep(0.01)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _last_words(folder: Path) -> str:
    said = (folder / "daemon.log").read_bytes()[-_LAST_WORDS_BYTES:].decode(errors="replace").strip()
    return f"It said: {said}" if said else "It said nothing."


def _say(**report: object) -> None:
    with suppress(OSError):
        os.write(1, json.dumps(report).encode() + b"\n")


if __name__ == "__main__":
    raise SystemExit(main())
