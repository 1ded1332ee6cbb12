"""Benchmarks that somebody runs on this machine: when one ends, what it wrote since its start is taken in."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd.benchmarks.files import result_files
from sitrepd.errors import NoSession, SitrepError
from sitrepd.facts import Scope
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.sessions import current

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_JUST_NOW_S = 600.0
_MOST_BYTES = 64 << 20


@dataclass
class Seen:
    """A benchmark that runs: where it writes, and how long those files were when it was first seen."""

    argv: Sequence[str]
    folder: Path
    sizes: dict[Path, int] = field(default_factory=dict)


class BenchmarkFiles(Service):
    """`runtime.live["benchmark_files"]`; goes by what the discovery of processes finds."""

    name = "benchmark files"

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[tuple[int, Any], Seen] = {}
        self._beginning = asyncio.Lock()
        runtime.live["benchmark_files"] = self

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def look(self) -> None:
        """Remember those that began, and take in what those wrote that are gone."""
        await self.began(self._told())
        now = {_key(one) for one in self._told()}
        for key in [key for key in self._running if key not in now]:
            await self.take_in(self._running.pop(key), None)

    def _told(self) -> Sequence[Mapping[str, Any]]:
        return self._runtime.live.get("benchmarks_running") or ()

    async def began(self, told: Sequence[Mapping[str, Any]]) -> None:
        """Remember those of them that are new. Discovery calls this: one that ends soon is gone at the next look."""
        async with self._beginning:
            for one in told:
                if _key(one) not in self._running and one["cwd"] and not self._is_ours(one["argv"]):
                    at = one["started_at"].timestamp()
                    self._running[_key(one)] = await asyncio.to_thread(_seen, one["argv"], Path(one["cwd"]), at)

    def _is_ours(self, argv: Sequence[str]) -> bool:
        """A run of our own is taken in by whoever runs it, with what the server told of it."""
        folder = str(self._runtime.settings.data_dir / "benchmarks")
        return any(folder in word for word in argv)

    async def take_in(self, seen: Seen, session_id: int | None) -> list[int]:
        """The runs that were written since, by their numbers, also those that were stored already."""
        found: list[int] = []
        for path in await asyncio.to_thread(result_files, seen.argv, seen.folder):
            try:
                written = await asyncio.to_thread(_written_since, path, seen.sizes.get(path, 0))
                if written.strip():
                    found += await self._store(path, written, seen.folder, session_id)
            except NoSession:
                log.info("%s belongs to no session that is open", path)
            except (SitrepError, OSError) as error:
                log.warning("%s was not taken in: %s", path, getattr(error, "detail", error))
        return found

    async def ran(
        self, programs: Iterable[Sequence[str]], folder: str | None, session_id: int, printed: str | None
    ) -> list[int]:
        """A command that has just ended: what it wrote a moment ago, else what it printed."""
        found: list[int] = []
        for argv in programs if folder else ():
            seen = await asyncio.to_thread(_long_ago, argv, Path(folder or ""))
            found += await self.take_in(seen, session_id)
        if not found and printed:
            found += await self._printed(printed.encode(), folder, session_id)
        return found

    async def _printed(self, printed: bytes, folder: str | None, session_id: int) -> list[int]:
        from sitrepd.benchmarks.parsers import is_printed

        if not is_printed(printed):
            return []
        try:
            return await self._store(Path("printed output"), printed, Path(folder or "/"), session_id)
        except SitrepError as error:
            log.info("what a benchmark printed was not taken in: %s", error.detail)
            return []

    async def _store(self, path: Path, written: bytes, folder: Path, session_id: int | None) -> list[int]:
        from sitrepd.benchmarks import service
        from sitrepd.benchmarks.parsers import read_results
        from sitrepd.hardware.spans import mark

        parsed = await asyncio.to_thread(read_results, written, str(path))

        def job(db: Session) -> tuple[int, list[int]]:
            number = session_id or current.resolve(db, current.Hint(cwd=str(folder)))
            scope = Scope(self._runtime.registry, f"observed:{path}", number)
            new, known, _ = service.take_in(db, scope, parsed, service.Told(str(path)))
            db.flush()
            for row in new:
                mark(db, row)
            return number, [row.id or 0 for row in (*new, *known)]

        number, found = await self._runtime.store.write_async(job)
        self._runtime.activity.touch(number)
        return found


def _key(one: Mapping[str, Any]) -> tuple[int, Any]:
    return one["pid"], one["started_at"]


def _long_ago(argv: Sequence[str], folder: Path) -> Seen:
    """A benchmark whose files count only where they were written in the last minutes."""
    return _seen(argv, folder, time.time() - _JUST_NOW_S)


def _seen(argv: Sequence[str], folder: Path, started_at: float) -> Seen:
    """A benchmark as it is first seen; a file that it has written by then is new as a whole."""
    sizes: dict[Path, int] = {}
    for path in result_files(argv, folder):
        with suppress(OSError):  # a file may vanish as it is looked at
            about = path.stat()
            if about.st_mtime < started_at:
                sizes[path] = about.st_size
    return Seen(argv, folder, sizes)


def _written_since(path: Path, size: int) -> bytes:
    """What was added to a file; all of it where it was written anew."""
    with open(path, "rb") as file:
        now = os.fstat(file.fileno()).st_size
        file.seek(size if now >= size else 0)
        return file.read(_MOST_BYTES)
