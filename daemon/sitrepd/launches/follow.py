"""A log file read as it grows: complete lines, across rotation, truncation and restarts of the reader."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

MAX_LINE_BYTES = 64 * 1024
BLOCK_BYTES = 1024 * 1024
_HEAD_BYTES = 1024
_SKIMMED_BYTES = 256 * 1024

FollowStatus = Literal["waiting", "following", "vanished", "unreadable", "not_a_file"]


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The byte after the last line handed out; `head` (of `head_bytes` first bytes) tells a rewritten file."""

    inode: int
    offset: int
    head_bytes: int = 0
    head: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> LogPosition:
        return cls(int(data["inode"]), int(data["offset"]), int(data["head_bytes"]), str(data["head"]))


def end_of(path: Path | str) -> LogPosition | None:
    """Where a log ends now, for a start that will append to it; None where there is no log yet."""
    return position_at(path, None)


def position_at(path: Path | str, offset: int | None) -> LogPosition | None:
    """A place in a log, its end for None; None where there is no log yet."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        info = os.fstat(fd)
        at = info.st_size if offset is None else min(offset, info.st_size)
        head = _pread(fd, min(at, _HEAD_BYTES), 0)
        return LogPosition(info.st_ino, at, len(head), _fingerprint(head) if head else "")
    finally:
        os.close(fd)


class LogFollower:
    """Reads `path` from `position` on and never raises for what the file system does.

    After every `read` the attributes say: `position`, to be stored together with what was made of the lines;
    `partial`, the unfinished last line, which is not consumed; `status` and, in words, `problem`; `notices`, what
    happened to the file during this read; `at_end`, whether everything there is has been read; `modified_at`.
    `skim` leaves whole lines out of a large block, as there is of a log that is long already when it is found.
    """

    def __init__(self, path: Path | str, position: LogPosition | None = None) -> None:
        self.path = Path(path)
        self.skim: Callable[[bytes], bytes] | None = None
        self.status: FollowStatus = "waiting"
        self.problem = ""
        self.notices: list[str] = []
        self.at_end = False
        self.modified_at: datetime | None = None
        self._resume = position
        self._fd = -1
        self._inode = 0
        self._offset = 0  # of the first byte that no complete line has consumed
        self._read_at = 0  # of the next byte to read
        self._pending = bytearray()
        self._dropped = 0
        self._head = b""

    @property
    def position(self) -> LogPosition | None:
        """None until the file has been opened once."""
        if self._fd < 0:
            return self._resume
        head = self._head[: self._offset]
        return LogPosition(self._inode, self._offset, len(head), _fingerprint(head) if head else "")

    @property
    def partial(self) -> str:
        return _text(bytes(self._pending), self._dropped)

    def read(self, limit_bytes: int = BLOCK_BYTES) -> list[str]:
        """The lines completed within the next `limit_bytes`, without their ends; empty when there are none yet."""
        self.notices = []
        self.at_end = False
        if self._fd < 0 and not self._open():
            self.at_end = True
            return []
        self._check_rewritten()
        block = self._block(limit_bytes)
        if block:
            return self._lines(block)
        return self._at_end()

    def finish(self) -> list[str]:
        """The unfinished last line as a line, for when nobody writes any more."""
        rest = self.partial
        self._pending.clear()
        self._dropped = 0
        self._offset = self._read_at
        return [rest] if rest else []

    def close(self) -> None:
        """Forget the descriptor; the next `read` opens the file again at `position`."""
        if self._fd >= 0:
            self._resume = self.position
            os.close(self._fd)
            self._fd = -1
            self._start_at(0)

    def _open(self) -> bool:
        found = self._examine(self.path)
        if found is None:
            return False
        fd, info = found
        if self._resume is not None:
            fd, info = self._find_resumed(fd, info, self._resume)
        self._adopt(fd, info.st_ino, self._resumed_offset(fd, info))
        self._resume = None
        return True

    def _examine(self, path: Path) -> tuple[int, os.stat_result] | None:
        """Sets status and problem; O_NONBLOCK because opening a pipe would wait for its writer."""
        try:
            mode = os.stat(path).st_mode
            if not stat.S_ISREG(mode):
                self._say("not_a_file", f"{path} is {_kind(mode)}, not a file; name the file that the output goes to")
                return None
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            self._say("waiting", f"{path} does not exist yet")
            return None
        except NotADirectoryError:
            self._say("not_a_file", f"{path} cannot exist: a part of its path is a file, not a folder")
            return None
        except PermissionError:
            self._say("unreadable", f"{path} may not be read by user id {os.geteuid()}; let it, e.g. chmod a+r {path}")
            return None
        except OSError as error:
            self._say("unreadable", f"{path} cannot be read: {error.strerror or error}")
            return None
        self._say("following", "")
        return fd, os.fstat(fd)

    def _find_resumed(self, fd: int, info: os.stat_result, wanted: LogPosition) -> tuple[int, os.stat_result]:
        """The file that was being read may have been renamed meanwhile; its end comes before the new file."""
        if info.st_ino == wanted.inode or self._continues(fd, info, wanted):
            return fd, info
        for other in self._renamed(wanted.inode):
            try:
                old = os.open(other, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            if self._continues(old, os.fstat(old), wanted):
                os.close(fd)
                return old, os.fstat(old)
            os.close(old)
        return fd, info

    def _renamed(self, inode: int) -> list[str]:
        try:
            with os.scandir(self.path.parent) as entries:
                return [e.path for e in entries if e.inode() == inode and e.name.startswith(self.path.name)]
        except OSError:
            return []

    def _resumed_offset(self, fd: int, info: os.stat_result) -> int:
        if self._resume is None or self._resume.offset == 0:
            return 0
        if self._continues(fd, info, self._resume):
            return self._resume.offset
        how = "was truncated or rewritten" if info.st_ino == self._resume.inode else "was replaced"
        self.notices.append(f"{self.path} {how} while nobody read it; reading it from its beginning")
        return 0

    @staticmethod
    def _continues(fd: int, info: os.stat_result, position: LogPosition) -> bool:
        """Whether the file still holds what was read of it; a copy counts when its head says so."""
        if info.st_size < position.offset:
            return False
        if not position.head_bytes:
            return info.st_ino == position.inode
        return _fingerprint(_pread(fd, position.head_bytes, 0)) == position.head

    def _adopt(self, fd: int, inode: int, offset: int) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._inode = fd, inode
        self._start_at(offset)

    def _start_at(self, offset: int) -> None:
        self._offset = self._read_at = offset
        self._pending.clear()
        self._dropped = 0
        self._head = _pread(self._fd, min(offset, _HEAD_BYTES), 0) if offset else b""

    def _check_rewritten(self) -> None:
        """Truncated below what was read, or truncated and grown again past it (then only the head tells)."""
        try:
            info = os.fstat(self._fd)
        except OSError:
            return
        self.modified_at = datetime.fromtimestamp(info.st_mtime, UTC)
        shrunk = info.st_size < self._read_at
        if shrunk or (self._head and _pread(self._fd, len(self._head), 0) != self._head):
            self.notices.append(f"{self.path} was truncated; reading it from its beginning")
            self._start_at(0)

    def _block(self, limit_bytes: int) -> bytes:
        try:
            block = os.pread(self._fd, max(limit_bytes, 1), self._read_at)
        except OSError as error:
            self._say("unreadable", f"{self.path} cannot be read: {error.strerror or error}")
            return b""
        if len(self._head) < _HEAD_BYTES and self._read_at <= len(self._head):
            self._head = (self._head[: self._read_at] + block)[:_HEAD_BYTES]
        return block

    def _lines(self, block: bytes) -> list[str]:
        start = self._read_at
        self._read_at += len(block)
        if block[0] == 10 and start == self._offset and start and _pread(self._fd, 1, start - 1) == b"\r":
            block = block[1:]  # the second half of \r\n, whose first half ended the last line
        fresh = not (self._pending or self._dropped)
        block = self._skimmed(block)
        pieces = block.splitlines(keepends=True)
        rest = pieces.pop() if pieces and pieces[-1][-1] not in b"\r\n" else b""
        if pieces and not fresh:
            self._keep(pieces[0].rstrip(b"\r\n"))
            pieces[0] = bytes(self._pending)
        lines = [
            _text(piece.rstrip(b"\r\n"), self._dropped if not (n or fresh) else 0) for n, piece in enumerate(pieces)
        ]
        if pieces or fresh:
            self._pending.clear()
            self._dropped = 0
            rest = rest.lstrip(b"\0")  # what a truncation leaves before a writer that keeps its place
            self._offset = self._read_at - len(rest)
        self._keep(rest)
        return lines

    def _skimmed(self, block: bytes) -> bytes:
        """The first and the last line may be parts of lines, and are left alone."""
        if self.skim is None or len(block) < _SKIMMED_BYTES:
            return block
        begin, end = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        return block[:begin] + self.skim(block[begin:end]) + block[end:]

    def _keep(self, piece: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._pending)
        self._pending += piece[:room]
        self._dropped += max(0, len(piece) - room)

    def _at_end(self) -> list[str]:
        """At the end of the held file: stay there, or go on to the file that has taken its name."""
        self.at_end = True
        try:
            info = os.stat(self.path)
        except FileNotFoundError:
            self._say("vanished", f"{self.path} was removed or renamed; still reading what its writer adds to it")
            return []
        except OSError as error:
            self._say("unreadable", f"{self.path} cannot be read any more: {error.strerror or error}")
            return []
        if info.st_ino == self._inode:
            self._say("following", "")
            return []
        if info.st_size == 0 and stat.S_ISREG(info.st_mode):
            return []  # a rotation by renaming: the writer keeps the old file until it opens the new one
        found = self._examine(self.path)
        if found is None:
            return []
        lines = self.finish()
        self._adopt(found[0], found[1].st_ino, 0)
        self.notices.append(f"{self.path} was replaced (rotated); going on with the new file")
        self.at_end = False
        return lines

    def _say(self, status: FollowStatus, problem: str) -> None:
        self.status, self.problem = status, problem


def _text(line: bytes, dropped: int = 0) -> str:
    line = line.lstrip(b"\0")
    cut = dropped or len(line) > MAX_LINE_BYTES
    text = line[:MAX_LINE_BYTES].decode("utf-8", "replace")
    return text + "…" if cut else text


def _pread(fd: int, size: int, offset: int) -> bytes:
    try:
        return os.pread(fd, size, offset)
    except OSError:
        return b""


def _fingerprint(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()[:16]


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")
