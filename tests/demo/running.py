"""A demo as a child process, and what is left of one."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import psutil
from tests.helpers import PATIENCE_S, wait_until

# Plays a shorter replay than the 90 s of the real one.
_SHORT = "import sys; from sitrepd.demo import command; command.REPLAY_S = int(sys.argv.pop(1)); from sitrepd.cli import main; main()"


class Demo:
    """One running `sitrep demo`, its output, and all that it makes: everything below it names `folder`."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        replay_s: int | None = None,
        env: Mapping[str, str | None] | None = None,
        closed_after: str | None = None,
    ) -> None:
        self.folder = folder / "temporary"
        self.folder.mkdir()
        (folder / "empty").mkdir()
        changed = {**os.environ, "TMPDIR": str(self.folder), **(env or {})}
        module = ["-m", "sitrepd.cli"] if replay_s is None else ["-c", _SHORT, str(replay_s)]
        self.process = subprocess.Popen(
            [sys.executable, "-P", *module, "demo", *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder / "empty",
            env={name: value for name, value in changed.items() if value is not None},
        )
        self._closed_after = closed_after
        self._output = {"out": bytearray(), "err": bytearray()}
        self._readers = [
            threading.Thread(target=self._read, args=(stream, self._output[name]), daemon=True)
            for name, stream in (("out", self.process.stdout), ("err", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, into: bytearray) -> None:
        with stream:
            while data := stream.read1():
                into += data
                if self._closed_after and self._closed_after.encode() in into:
                    return

    @property
    def out(self) -> str:
        return self._output["out"].decode()

    @property
    def err(self) -> str:
        return self._output["err"].decode()

    def wait_for(self, pattern: str) -> re.Match[str]:
        wait_until(lambda: re.search(pattern, self.out + self.err) or self.process.poll() is not None)
        found = re.search(pattern, self.out + self.err)
        assert found, self.out + self.err
        return found

    def end(self, signum: int = signal.SIGINT) -> int:
        self.process.send_signal(signum)
        return self.wait()

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        status = self.process.wait(timeout_s)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return status

    def left(self) -> list[str]:
        """Processes of this demo (all have its folder in their environment or their words), and files."""
        found = [str(path) for path in self.folder.iterdir()]
        for process in psutil.process_iter():
            try:
                words = " ".join([*process.cmdline(), *process.environ().values()])
                if str(self.folder) in words and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(f"{process.pid} {' '.join(process.cmdline())}")
            except psutil.Error:
                continue
        return found

    def child(self, words: str) -> psutil.Process:
        """The process below this demo whose command line has these words; what it forks has them too until its exec."""
        below = {one: command_line(one) for one in psutil.Process(self.process.pid).children(recursive=True)}
        named = {one.pid: one for one, line in below.items() if words in line}
        found = [one for one in named.values() if one.ppid() not in named]
        assert len(found) == 1, list(below.values())
        return found[0]


def command_line(process: psutil.Process) -> str:
    """Nothing of one that has ended meanwhile, or is a zombie."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
