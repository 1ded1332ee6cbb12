"""A server that runs elsewhere than below the command that has started it: in a container, in tmux, in the background.

Such a command may end at once (`docker run -d`, `tmux new-session -d`, a script with `&`) or stand for the server as
long as it runs (`docker run`, `srun`). Which server is its is known by the mark that it has inherited, by the container
whose id the command has printed, by the tree of processes, or by its words; always by the time of its start.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

from sitrepd import redact
from sitrepd.clock import utc_now
from sitrepd.launches.discovery.details import Details
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.engines import base as e
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.processes import is_alive
from sitrepd.launches.watch import Outcome, Watch

SOUGHT_S = 10.0
_BEFORE, _AFTER = timedelta(seconds=1), timedelta(seconds=8)
_ELSEWHERE = frozenset(
    {
        "docker", "podman", "nerdctl", "tmux", "screen", "srun", "systemd-run", "apptainer", "singularity", "enroot",
        "kubectl", "dtach", "abduco", "zellij", "daemonize",
    }
)  # fmt: skip
_CONTAINER = re.compile(rb"^([0-9a-f]{64})\r?$", re.MULTILINE)
_SERVES = re.compile(r"sglang|vllm|llama")
_SCRIPT_BYTES = 64 << 10
_TAIL_BYTES = 4096
_LEAST_WORDS = 2
_FIRST_WORDS = 6


@dataclass
class Command:
    """What a launch has run, as far as it leads to a server."""

    words: tuple[str, ...]
    mark: str | None
    started_at: datetime

    @property
    def is_elsewhere(self) -> bool:
        """Whether it names a program that runs others where they are not its children."""
        return any(PurePosixPath(word).name in _ELSEWHERE for word in self.words)


@dataclass
class Handover:
    """A launch whose command has ended in order: for a moment its server is looked for."""

    watch: Watch
    outcome: Outcome
    exit: Exit
    command: Command
    heir: int | None = None
    """The launch that its server was taken for meanwhile."""
    until: float = field(default_factory=lambda: time.monotonic() + SOUGHT_S)

    def tell(self) -> None:
        """Make the end say what became of it."""
        what = f"what it started is L{self.heir}" if self.heir else "no server was found that it has started"
        text = f"The command ended with exit code 0, and did not wait for a server; {what}."
        self.outcome.events.append(e.Warned(at=utc_now(), what="handed_over", text=text))
        self.outcome.worth_storing = True

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.until


def command_of(argv: Sequence[str], line: str | None, cwd: str | None, watch: Watch) -> Command:
    """With the words of scripts that it names."""
    words = list(_words(line) if line else (part for word in argv for part in _words(word)))
    state_dir = watch.launched.state_dir
    inside = [part for word in words[:_FIRST_WORDS] for part in _words(_script(Path(cwd or "/", word)))]
    return Command((*words, *inside), str(state_dir) if state_dir else None, watch.launched.started_at)


def handover(watch: Watch, outcome: Outcome, *, stopped: bool) -> Handover | None:
    """None where the end is the end: it was asked for, it failed, the server has served, or nothing could go on."""
    ended, command = outcome.exit, watch.command
    if ended is None or not ended.known or ended.exit_code != 0 or stopped or command is None:
        return None
    if watch.port_taken or (watch.ready and not (watch.main and is_alive(watch.main))):
        return None
    if not (ended.leftovers or command.is_elsewhere):
        return None
    return Handover(watch, outcome, ended, command)


def is_heir(one: Handover, server: Server, details: Details) -> bool:
    """Whether this server was started by a command that has ended since."""
    command, ended_at = one.command, one.exit.ended_at or one.command.started_at
    if not command.started_at - _BEFORE <= details.started_at <= ended_at + _AFTER:
        return False
    left = {left.pid for left in one.exit.leftovers}
    if server.main.pid in left or (command.mark is not None and details.mark == command.mark):
        return True
    container = details.container
    if container is not None and container.id and container.id in _printed_ids(one.watch):
        return True
    return _has_words_of(command, server)


def stands_for(command: Command, server: Server, details: Details) -> bool:
    """Whether a command that still runs has started this server elsewhere."""
    begun = command.started_at - _BEFORE <= details.started_at
    if not begun or not command.is_elsewhere:
        return False
    return _has_words_of(command, server) and (details.mark in (None, command.mark))


def _has_words_of(command: Command, server: Server) -> bool:
    """Its flags with their values, in their order; what stands before them may come from the image of a container."""
    argv = redact.redact_argv(list(server.main.argv))
    named = next((at for at, word in enumerate(argv) if _SERVES.search(word)), len(argv))
    first = next((at for at in range(named + 1, len(argv)) if argv[at].startswith("-")), len(argv))
    wanted = [word for word in argv[first:] if "${" not in word]
    told = iter(command.words)
    return len(wanted) >= _LEAST_WORDS and all(word in told for word in wanted)


def _words(text: str) -> Iterator[str]:
    """Of a command line, also of those that stand in its quotes."""
    try:
        parts = shlex.split(text, comments=False)
    except ValueError:
        parts = text.split()
    for part in parts:
        if len(parts) > 1 and any(char.isspace() for char in part):
            yield from _words(part)
        else:
            yield from (part.strip(";&") for part in part.split())


def _script(path: Path) -> str:
    """Its text; nothing for what is no script of a shell."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            head = file.read(_SCRIPT_BYTES)
    except (OSError, ValueError):
        return ""
    first, _, _ = head.partition(b"\n")
    is_shell = path.suffix in (".sh", ".bash") or (first.startswith(b"#!") and first.rstrip().endswith(b"sh"))
    return _joined(head.decode(errors="replace").splitlines()) if is_shell and b"\0" not in head else ""


def _joined(lines: Iterable[str]) -> str:
    return " ".join(line.rstrip().removesuffix("\\") for line in lines if not line.lstrip().startswith("#"))


def _printed_ids(watch: Watch) -> set[str]:
    """Containers that the command has named, as `docker run -d` does."""
    found: set[str] = set()
    for log in watch.launched.logs:
        try:
            with log.path.open("rb") as file:
                file.seek(max(0, log.path.stat().st_size - _TAIL_BYTES))
                found |= {match.decode() for match in _CONTAINER.findall(file.read())}
        except OSError:
            continue
    return found
