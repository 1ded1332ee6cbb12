"""What a launcher takes, gives back and promises; the local one is in `local.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from sitrepd.errors import SitrepError

LaunchErrorKind = Literal[
    "command",
    "program_not_found",
    "permission",
    "folder_missing",
    "log_folder_missing",
    "log_not_writable",
    "limits",
    "state_folder",
    "shell",
    "timeout",
    "internal",
]
LogKind = Literal["stdout", "stderr", "both"]


class LaunchError(SitrepError):
    """The server was not started; `detail` says why and what would be right."""

    status = 422
    title = "The server could not be started"

    def __init__(self, kind: LaunchErrorKind, detail: str) -> None:
        super().__init__(detail, kind=kind)
        self.kind: LaunchErrorKind = kind


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process for ever: a pid alone is used again, a pid with its start in clock ticks since this boot is not."""

    host: str
    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What to start, and how its caller would have started it.

    Either `command` (a shell command line as told) or `argv`. `env` is the whole environment, secrets resolved: it is
    handed over through a pipe and never written down. `state_dir` is new and belongs to this launch alone.
    `log_path` takes the output that the command does not send elsewhere itself. `limits` are by resource name:
    `{"nofile": (soft, hard)}`, -1 for unlimited.
    """

    state_dir: Path
    log_path: Path
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    command: str | None = None
    argv: Sequence[str] | None = None
    append: bool = False
    umask: int | None = None
    limits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    nice: int | None = None
    affinity: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class LaunchLog:
    """A file that the server's output goes to; `append` is false when the start emptied it."""

    path: Path
    kind: LogKind
    append: bool


@dataclass(frozen=True, slots=True)
class Launched:
    """A started server; `supervisor` and `state_dir` are None for one that somebody else started."""

    identity: ProcessIdentity
    started_at: datetime
    logs: tuple[LaunchLog, ...] = ()
    supervisor: ProcessIdentity | None = None
    state_dir: Path | None = None
    shell: bool = False
    """The main process is a shell that has the server as its child (the told text could not be run by `exec`)."""
    warnings: tuple[str, ...] = ()
    """What of the caller's surroundings could not be had, each a sentence."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A descendant that still lived when the main process had ended."""

    pid: int
    start_ticks: int
    name: str


@dataclass(frozen=True, slots=True)
class Exit:
    """How a server ended; `known` is false, and `reason` says why, when nobody saw it end."""

    known: bool
    exit_code: int | None = None
    signal: int | None = None
    ended_at: datetime | None = None
    max_rss_bytes: int | None = None
    cpu_s: float | None = None
    leftovers: tuple[Leftover, ...] = ()
    reason: str | None = None


class Launcher(Protocol):
    """Starts servers somewhere and speaks about them; every call returns within seconds and may run in any thread."""

    def launch(self, request: LaunchRequest) -> Launched:
        """Start the server; raises LaunchError when it could not be executed."""
        ...

    def poll(self, launched: Launched) -> Exit | None:
        """None while the main process lives."""
        ...

    def signal(self, launched: Launched, signum: int) -> bool:
        """Send a signal to the server's main process alone; False when that process is gone."""
        ...

    def kill(self, launched: Launched, known: Iterable[ProcessIdentity] = ()) -> list[int]:
        """Send SIGKILL to all that is left of the launch and to `known` processes; the pids that got it."""
        ...

    def logs(self, launched: Launched) -> tuple[LaunchLog, ...]:
        """The files that carry its output, the one with the server's own log lines (standard error) first."""
        ...

    def adopt(self, state_dir: Path) -> Launched:
        """Take up again what an earlier daemon started; raises LaunchError when nothing was started there."""
        ...
