"""Changes of files: shown as a diff, written with a backup, all of them or none."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sitrepd.errors import Conflict

BACKUP = ".sitrep-backup"


@dataclass(frozen=True)
class Change:
    """A file before and after; None where it is not there. `ours` says that nobody else writes into it."""

    path: Path
    before: bytes | None
    after: bytes | None
    ours: bool = False
    mode: int | None = None

    @property
    def word(self) -> str:
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "changed"

    def diff(self) -> Iterator[str]:
        """A unified diff."""
        old, new = (_lines(side) for side in (self.before, self.after))
        names = (
            "/dev/null" if self.before is None else str(self.path),
            "/dev/null" if self.after is None else str(self.path),
        )
        for line in difflib.unified_diff(old, new, *names, n=2):
            yield line.rstrip("\n")


@dataclass(frozen=True)
class Written:
    """What was done to a file, and where it is kept as it was."""

    change: Change
    backup: Path | None = None


def read(path: Path) -> bytes | None:
    """The bytes of a file, None where there is none; Conflict says why it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Conflict(f"{path} cannot be read: {error.strerror}. Nothing was changed.") from error


def apply(changes: Sequence[Change]) -> list[Written]:
    """Write the changes; where one fails, those before it are taken back."""
    done: list[Written] = []
    try:
        for change in changes:
            if change.before == change.after:
                done.append(Written(change))
                continue
            restored = change.after is None or change.after == _read_quietly(_names(change.path))
            backup = None if change.ours or change.before is None or restored else _back_up(change)
            _write(change)
            done.append(Written(change, backup))
    except OSError as error:
        _take_back(done)
        raise Conflict(
            f"{changes[len(done)].path} cannot be written: {error.strerror}. Nothing was changed; "
            "make it writable, or let --print show what belongs there."
        ) from error
    for one in done:
        if one.change.after is not None and one.change.word == "changed" and one.backup is None and not one.change.ours:
            _drop_backups(one.change.path)  # it is as it was before we came
    return done


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "replace").splitlines(keepends=True)


def _write(change: Change) -> None:
    # Through a link, as dotfiles are often kept.
    path = change.path.resolve()
    if change.after is None:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    mode = change.mode
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o644
    try:
        partial.write_bytes(change.after)
        partial.chmod(mode)
        partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink()


def _back_up(change: Change) -> Path:
    """A copy beside the file, of a name that no other content has."""
    for name in _names(change.path):
        try:
            if name.read_bytes() == change.before:
                return name
        except FileNotFoundError:
            _write(Change(name, None, change.before, mode=change.path.stat().st_mode & 0o7777))
            return name
    raise AssertionError


def _names(path: Path) -> Iterator[Path]:
    yield path.with_name(path.name + BACKUP)
    number = 2
    while True:
        yield path.with_name(f"{path.name}{BACKUP}-{number}")
        number += 1


def _read_quietly(names: Iterator[Path]) -> bytes | None:
    try:
        return next(names).read_bytes()
    except OSError:
        return None


def _drop_backups(path: Path) -> None:
    for name in _names(path):
        try:
            name.unlink()
        except OSError:
            return


def as_it_was(path: Path) -> bytes | None:
    """The file before we wrote into it, as its backup has it; None where it was not there."""
    return _read_quietly(_names(path))


def _take_back(done: Iterable[Written]) -> None:
    for one in reversed(list(done)):
        with suppress(OSError):
            _write(Change(one.change.path, one.change.after, one.change.before, mode=one.change.mode))
