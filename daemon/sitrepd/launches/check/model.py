"""What a check says, and what it may look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from sitrepd.claims.gpus import Wanted
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.folder import Folders
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.launches.models import LaunchPublic
from sitrepd.launches.start import Plan

if TYPE_CHECKING:
    from sitrepd.storage.store import Store

Level = Literal["ok", "note", "warning", "error"]
GIB = 1 << 30


class Check(BaseModel):
    """One thing that was looked at before a launch; `fix` is what to type or to do."""

    name: str
    level: Level
    text: str
    fix: str | None = None
    ids: list[str] = Field(default_factory=list, description="Facts that it rests on.")


class LaunchStarted(LaunchPublic):
    """A launch as it was just made."""

    checks: list[Check] | None = Field(None, description="What spoke against it beforehand, if anything did.")


@dataclass(frozen=True)
class Subject:
    """A launch that is not yet made: its words and environment as the shell will give them to the server."""

    plan: Plan
    argv: tuple[str, ...]
    words: tuple[str, ...]
    env: Mapping[str, str]
    told_env: Mapping[str, str]
    gpus: Wanted
    is_server: bool = True
    """Whether it is an engine that is known, and no replay of one; `words` are there only of SGLang's."""

    @property
    def facts(self) -> CommandFacts:
        return self.plan.facts

    @property
    def cwd(self) -> Path:
        return Path(self.plan.shell.cwd) if self.plan.shell and self.plan.shell.cwd else self.plan.cwd

    @property
    def port(self) -> int | None:
        return self.plan.body.port or self.facts.port

    @property
    def is_exact(self) -> bool:
        """Whether all words are known; what a shell has yet to find out stands as told, with its `$`."""
        return not any("$" in word or "`" in word for word in self.words)


@dataclass(frozen=True)
class Look:
    """What is known of this moment and this machine."""

    store: Store
    hardware: LiveHardware
    flags_dir: Path
    host_id: int | None = None
    session_id: int | None = None
    owner: str | None = None
    flags_timeout_s: float = 60.0
    proc: Path = Path("/proc")
    shm: Path = Path("/dev/shm")
    folders: Folders = field(default_factory=Folders)


def gib(size: float) -> str:
    """94.9 GiB"""
    return f"{size / GIB:.1f} GiB"
