"""A profile from a file of any kind that is known, told by its content."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from sitrepd.benchmarks.profiles import chrome, nsight, server
from sitrepd.benchmarks.profiles.found import Found, ProfileError
from sitrepd.benchmarks.profiles.printed import printed_phases

_HEAD = 1 << 20
_MOST_JSON = 64 << 20
_GZIP, _SQLITE = b"\x1f\x8b", b"SQLite format 3\0"


def read_profile(path: Path, name: str, pattern: str | None = None) -> Found:
    """ProfileError says what is wrong with it; a log is read by `pattern`, if there is one."""
    try:
        with open(path, "rb") as raw:
            head = raw.read(len(_SQLITE))
            raw.seek(0)
            if head.startswith(_SQLITE):
                return nsight.read_database(path, name)
            if path.suffix in (".nsys-rep", ".qdrep"):
                raise ProfileError(
                    f"{name} is Nsight's own format. Give what `nsys export --type sqlite {path.name}` or "
                    f"`nsys stats --format csv {path.name}` writes."
                )
            if head.startswith(_GZIP):
                with gzip.open(raw) as unpacked:
                    return _read(cast("IO[bytes]", unpacked), name, pattern)
            return _read(raw, name, pattern)
    except EOFError as error:
        raise ProfileError(f"{name} is cut short: {error}.") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise ProfileError(f"{name} is damaged: {error}.") from error
    except OSError as error:
        raise ProfileError(f"{name} cannot be read: {error.strerror or error}.") from error


def _read(file: IO[bytes], name: str, pattern: str | None) -> Found:
    head = file.read(_HEAD)
    file.seek(0)
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if pattern is None and begin in (b"{", b"[") and not _is_log(head):
        return _json(file, head, name)
    with io.TextIOWrapper(file, "utf-8", errors="replace") as lines:
        if pattern is None and any(map(nsight.is_summary, head.decode(errors="replace").splitlines())):
            return nsight.read_summary(lines, name)
        return _log(lines, name, pattern)


def _is_log(head: bytes) -> bool:
    """`[2026-12-01 01:18:24] …` begins as an array would."""
    first = head.lstrip()[:2]
    return first[:1] == b"[" and first[1:2] not in (b"", b"{", b"[", b"]", b"\n", b"\r", b" ", b"\t", b'"')


def _json(file: IO[bytes], head: bytes, name: str) -> Found:
    if b'"traceEvents"' not in head and len(head) < _HEAD and head.lstrip().startswith(b"{"):
        try:
            told: Any = json.loads(file.read(_MOST_JSON))
        except (ValueError, RecursionError) as error:
            raise ProfileError(f"{name} is no JSON: {error}.") from error
        if isinstance(told, dict) and ("internal_states" in told or "startup_time" in told):
            return server.read_server_info(told, name)
        raise ProfileError(f"{name} is neither a trace nor what /server_info answers.")
    return chrome.read_trace(file, name)


def _log(lines: io.TextIOWrapper, name: str, pattern: str | None) -> Found:
    if pattern is not None:
        phases = printed_phases(lines, pattern)
        if not phases:
            raise ProfileError(f"{name} has no times that the pattern finds.")
        return Found("log pattern", phases)
    kept: list[str] = []
    found = server.read_log(_remember(lines, kept))
    phases = printed_phases(kept)
    if not phases and not found.phases:
        raise ProfileError(
            f"{name} has no times: neither lines that speak of a profile, nor decode lines of SGLang. "
            "--pattern finds others."
        )
    tool = "log" if not found.phases else found.tool
    return Found(tool, [*phases, *found.phases], found.note)


def _remember(lines: Iterator[str], kept: list[str]) -> Iterator[str]:
    """Passes lines on, and keeps those that speak of a profile; a bar is redrawn within its line."""
    for line in lines:
        for piece in line.split("\r"):
            if "profil" in piece.lower():
                kept.append(piece)
            yield piece
