"""The real clients: installed once into a cache folder by npm, each run in a home folder of its own, on loopback only."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.daemons import Daemon
from tests.helpers import wait_until

HERE = Path(__file__).parent
SITREP = str(Path(sys.executable).with_name("sitrep"))
API = "/api/v1"
LIMIT_S = 240
_INSTALL_S = 900
_CLAUDE_TYPES = "0.3.332"
# Nothing of whoever runs the tests reaches a client: neither keys nor the settings of another one around it.
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SITREP_ADOPT", "SITREP_CHECKPOINT_QUIET_S", "PYTHONPYCACHEPREFIX")
# Whatever does not go to this machine goes nowhere.
_NOWHERE = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
_NATIVE = {
    "claude": "@anthropic-ai/claude-code-linux-x64/claude",
    "opencode": "opencode-linux-x64/bin/opencode",
    "codex": ".bin/codex",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
}


@cache
def folder() -> Path:
    """Where they are installed, as package.json pins them; SITREP_TEST_CLIENTS names a folder of one's own."""
    told = os.environ.get("SITREP_TEST_CLIENTS")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    pinned = (HERE / "package.json").read_bytes()
    found = Path(told) if told else base / "sitrep" / f"clients-{hashlib.sha256(pinned).hexdigest()[:12]}"
    found.mkdir(parents=True, exist_ok=True)
    with open(found / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (found / ".installed").exists():
            _install(found, pinned)
    return found


def _install(into: Path, pinned: bytes) -> None:
    if shutil.which("npm") is None:
        pytest.fail("npm is wanted for these tests: apt-get install npm, or a Node.js of 20 or later")
    (into / "package.json").write_bytes(pinned)
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    subprocess.run(command, cwd=into, check=True, timeout=_INSTALL_S, stdin=subprocess.DEVNULL)
    (into / ".installed").touch()


@cache
def claude_types() -> Path:
    """What Claude Code sends to hooks and takes from them, as its SDK of the same release declares it."""
    found = folder() / "claude-types"
    if not (found / "package" / "sdk.d.ts").exists():
        found.mkdir(exist_ok=True)
        pack = ["npm", "pack", "--silent", f"@anthropic-ai/claude-agent-sdk@{_CLAUDE_TYPES}"]
        name = subprocess.run(pack, cwd=found, check=True, timeout=_INSTALL_S, capture_output=True, text=True).stdout
        with tarfile.open(found / name.strip().splitlines()[-1]) as packed:
            packed.extract("package/sdk.d.ts", found, filter="data")
    return found / "package" / "sdk.d.ts"


def program(name: str) -> str:
    """Its binary: without the scripts that packages would run when they are installed."""
    found = folder() / "node_modules" / _NATIVE[name]
    if name == "opencode" and "avx2" not in Path("/proc/cpuinfo").read_text():
        found = folder() / "node_modules/opencode-linux-x64-baseline/bin/opencode"
    assert found.exists(), f"{name} is not there: {found}"
    return str(found)


@dataclass
class Home:
    """A user of its own with a work folder, and the daemon that its hooks reach."""

    path: Path
    daemon: Daemon
    env: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        own = {"HOME": str(self.path), "TERM": "xterm-256color", "SITREP_DATA_DIR": str(self.daemon.data_dir),
               "SITREP_NO_START": "1", "NO_PROXY": "127.0.0.1,localhost,opencode.internal"} | _NOWHERE  # fmt: skip
        return kept | own | self.env

    def run(self, *command: str, told: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, input=told, env=self.environment, cwd=self.work, capture_output=True, text=True, timeout=LIMIT_S,
            check=False,
        )  # fmt: skip
        assert not check or done.returncode == 0, (
            f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return done

    def install(self, client: str) -> None:
        self.run(SITREP, "install", client)

    def calls(self, client: str) -> dict[str, int]:
        """How often each of its hooks was called."""
        told = self.daemon.client.get(f"{API}/hooks").json()
        found: dict[str, int] = next(one["calls"] for one in told if one["client"] == client)
        return found

    def facts(self, plural: str) -> list[dict[str, Any]]:
        """All of a kind, oldest first."""
        found = self.daemon.client.get(f"{API}/{plural}", params={"limit": 1000}).json()["data"]
        return list(reversed(found))


@contextmanager
def home(path: Path, daemon: Daemon, **env: str) -> Iterator[Home]:
    """A session whose checkpoint is long enough that a client which shortens it would be found out."""
    found = Home(path / "home", daemon, env)
    found.work.mkdir(parents=True)
    told = {"name": "tuning", "goal": "Beat 88.8 tok/s with EAGLE-3."}
    session = daemon.client.post(f"{API}/sessions", json=told).json()["id"]
    daemon.client.post(f"{API}/directives", json={"text": "No hacks that cut precision."}).raise_for_status()
    for number in range(24):
        title = f"Setting {number} is kept as it is, because its alternative was measured to be slower"
        fact = {"kind": "decision", "title": title, "reason": f"{80 + number}.25 tok/s against 88.80 tok/s; é ü – 別",
                "status": "confirmed"}  # fmt: skip
        daemon.client.post(f"{API}/findings", json=fact).raise_for_status()
    _warm(daemon)
    try:
        yield found
    finally:
        _end_what_is_left(found.path)
        daemon.client.post(f"{API}/sessions/{session}/close")


def _end_what_is_left(path: Path) -> None:
    """Codex leaves a server of its own behind, known by its home folder."""
    own = f"HOME={path}".encode()

    def left() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(OSError):
                if own in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0"):
                    found.append(process)
        return found

    def ended() -> bool:
        for process in (remaining := left()):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        return not remaining

    wait_until(ended)


def _warm(daemon: Daemon) -> None:
    """A hook waits a second at the most, and the first hand-over of a daemon takes longer on a slow machine."""
    for client, event in (("claude-code", "SessionStart"), ("opencode", "system")):
        told = {"session_id": "warm", "cwd": "/", "source": "startup"}
        daemon.client.post(f"{API}/hooks/{client}/{event}", json=told).raise_for_status()


def stored(at: Home, checkpoint: str) -> str:
    """The text of a checkpoint as it was stored."""
    answer = at.daemon.client.get(f"{API}/checkpoints/{checkpoint}", params={"format": "md"})
    assert answer.status_code == 200
    return answer.text
