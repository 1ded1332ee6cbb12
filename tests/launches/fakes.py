"""A `python` that tells what it was started with, and a way to see what a shell makes of a text."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.helpers import PATIENCE_S, lives

from sitrepd.launches.launchers.base import Exit, Launched, LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher

_FAKE = """#!{python} -IS
import json, os, sys
where = {root!r}
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
dump = dict(argv=sys.argv[1:], env=dict(os.environ), cwd=os.getcwd(), pid=os.getpid(), stdin=sys.stdin.read())
with open(where + "/dump.new", "w") as file:
    json.dump(dump, file)
os.rename(where + "/dump.new", where + "/dump.json")
"""
_OF_THE_SHELL = {"_", "SHLVL", "PWD", "OLDPWD", "LC_CTYPE"}
PYTHON = [sys.executable, "-I", "-S"]
WAITS = """
import os, signal, sys
def end(*_): sys.exit(7)
signal.signal(signal.SIGUSR1, end)
print("waiting", flush=True)
while True: signal.pause()
"""
T = TypeVar("T")


def until(condition: Callable[[], T], timeout_s: float = PATIENCE_S) -> T:
    """Ask until the answer is true."""
    deadline = time.monotonic() + timeout_s
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"still {answer!r} after {timeout_s} s"
        time.sleep(0.005)
    return answer


@dataclass(frozen=True)
class Seen:
    """What a start did: the server's argv, environment, folder, standard input, and all files that were written."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdin: str
    files: dict[str, str]


class Box:
    """A folder at one fixed place with a home, a fake virtual environment and fake programs on PATH."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work = root / "work"
        self.home = root / "home"

    def reset(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in ("work/logs", "work/sub dir", "home/ml-env/bin", "bin", "work/venv/bin"):
            (self.root / folder).mkdir(parents=True)
        fake = self.root / "bin" / "python"
        fake.write_text(_FAKE.format(python=sys.executable, root=str(self.root)))
        fake.chmod(0o755)
        for link in ("bin/python3", "bin/sglang", "home/ml-env/bin/python3", "work/venv/bin/python"):
            (self.root / link).write_text(f'#!/bin/bash\nexec -a "$0" {fake} "$@"\n')
            (self.root / link).chmod(0o755)
        (self.work / "venv/bin/activate").write_text(
            f'PATH="{self.work}/venv/bin:$PATH"\nexport PATH VIRTUAL_ENV={self.work}/venv\n'
        )
        (self.work / "settings.sh").write_text("export FROM_SETTINGS=yes\nMODEL=/other\n")
        (self.work / "glob1.json").write_text("")
        (self.work / "glob2.json").write_text("")
        (self.root / "extra.env").write_text("TOKEN=abc\n")

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": f"{self.root}/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "MODEL": "/models/kimi k2",
            "FLAGS": "--tp-size 8  --trust-remote-code",
            "EMPTY": "",
            "LANG": "C.UTF-8",
        }

    def seen(self, output: str, awaited: tuple[str, ...]) -> Seen:
        """Collect after the start; `output` is what was not redirected, `awaited` what some file must have."""
        dump = json.loads(until(lambda: self._read("dump.json")))
        until(lambda: all(text in self._written(output) for text in awaited))
        env = {name: value for name, value in dump["env"].items() if name not in _OF_THE_SHELL}
        files = {str(p.relative_to(self.root)): p.read_text() for p in sorted(self.work.rglob("*")) if p.is_file()}
        files = {name: text.replace(str(dump["pid"]), "PID") for name, text in files.items()}
        return Seen(dump["argv"], env, dump["cwd"], dump["stdin"], files | {"(not redirected)": output})

    def _read(self, name: str) -> str:
        path = self.root / name
        return path.read_text() if path.exists() else ""

    def _written(self, output: str) -> str:
        return output + "".join(p.read_text() for p in self.work.rglob("*") if p.is_file() and "venv" not in p.parts)

    def by_bash(self, text: str, awaited: tuple[str, ...]) -> Seen:
        """Let bash run the told text, as a terminal would (its output in a file, standard input closed)."""
        with open(self.root / "terminal", "w+") as terminal:
            subprocess.run(
                ["bash", "-c", text], env=self.env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=terminal,
                stderr=terminal, check=False, timeout=PATIENCE_S,
            )  # fmt: skip
            until(lambda: (self.root / "dump.json").exists())
        return self.seen((self.root / "terminal").read_text(), awaited)


def gone(pid: int) -> bool:
    """Whether a process has ended (a zombie has)."""
    return not lives(pid)


class Room:
    """Launches in a temporary folder; whatever of them still lives is killed at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.launcher = LocalLauncher()
        self.started: list[Launched] = []

    def launch(self, argv: list[str] | None = None, **more: Any) -> Launched:
        request = LaunchRequest(
            **{"cwd": self.folder, "env": {"PATH": "/usr/bin:/bin"}, "argv": argv, **self._new(), **more}
        )
        self.started.append(self.launcher.launch(request))
        return self.started[-1]

    def _new(self) -> dict[str, Path]:
        number = len(list(self.folder.glob("state*")))
        return {"state_dir": self.folder / f"state{number}", "log_path": self.folder / f"log{number}"}

    def ended(self, launched: Launched) -> Exit:
        return until(lambda: self.launcher.poll(launched))

    def end(self) -> None:
        for launched in self.started:
            self.launcher.kill(launched)
