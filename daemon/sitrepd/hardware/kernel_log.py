"""Follows the kernel's log for Xid messages and killed processes, which become events of the host."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.hardware import owners
from sitrepd.hardware.kernel import Message, OomKill, Xid, announced, of_journal, of_record, understood
from sitrepd.hardware.live import LiveHardware
from sitrepd.runtime import Runtime
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event

log = logging.getLogger(__name__)
XID, OOM_KILL = "host.xid", "host.oom_kill"
_RECORD_BYTES = 8192
_LINE_BYTES = 1 << 20
_WORDS = (b"Xid", b"Killed process", b"Kill process")
# Of what was said before the daemon started only so much becomes events; of one burst no more either.
_MOST_AT_ONCE = 50
# So many of one kind and GPU in so many microseconds.
_MOST_ALIKE, _ALIKE_US = 50, 60_000_000
_JOURNAL = ("journalctl", "--dmesg", "--follow", "--lines=2000", "--output=json", "--no-pager", "--quiet")


class KernelLog:
    """/dev/kmsg where it may be read, else what journalctl shows; without either nothing is known."""

    def __init__(self, runtime: Runtime, host_id: int) -> None:
        self._runtime = runtime
        self._subject = ids.public_id("H", host_id)
        self._boot = owners.boot_id()
        self._through_us = -1
        self._of_group = False
        self._alike: dict[tuple[Any, ...], tuple[int, int]] = {}

    async def run(self) -> None:
        with suppress(StoreUnusable):
            self._through_us = await asyncio.to_thread(self._told_last)
        try:
            async for messages in self._messages(self._runtime.settings.kernel_log):
                await self._take(messages)
        except (OSError, ValueError) as error:
            log.info("the kernel's log is not followed: %s", error)

    async def _messages(self, path: Path) -> AsyncIterator[list[Message]]:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            if shutil.which(_JOURNAL[0]) is None:
                raise
            async for messages in _journal():
                yield messages
            return
        try:
            async for messages in _records(descriptor):
                yield messages
        finally:
            os.close(descriptor)

    def _told_last(self) -> int:
        """Microseconds after boot of the last message that became an event."""
        query = select(Event.data).where(Event.subject == self._subject, col(Event.kind).in_((XID, OOM_KILL)))
        with self._runtime.store.read() as db:
            data = db.exec(query.order_by(col(Event.id).desc()).limit(1)).first() or {}
        return int(data["us"]) if data.get("boot") == self._boot else -1

    async def _take(self, messages: Iterable[Message]) -> None:
        found = [one for one in map(self._understood, messages) if one is not None][-_MOST_AT_ONCE:]
        if not found:
            return
        self._through_us = found[-1][0].us
        found = [one for one in found if self._is_told(*one)]
        if not found:
            return
        rows = [(XID if isinstance(told, Xid) else OOM_KILL, self._data(message, told)) for message, told in found]

        def job(db: Session) -> None:
            for kind, data in rows:
                events.record(db, kind, self._subject, None, **data)

        for kind, data in rows:
            log.info("%s: %s", kind, data["text"])
        with suppress(StoreUnusable):
            await self._runtime.store.write_async(job)

    def _is_told(self, message: Message, told: Xid | OomKill) -> bool:
        """A GPU that repeats itself by the thousand is told of no more often than this."""
        kind = (told.xid, told.pci) if isinstance(told, Xid) else ()
        since, count = self._alike.get(kind, (message.us, 0))
        since, count = (message.us, 0) if message.us - since >= _ALIKE_US else (since, count)
        self._alike[kind] = since, count + 1
        return count < _MOST_ALIKE

    def _understood(self, message: Message) -> tuple[Message, Xid | OomKill] | None:
        if message.us <= self._through_us:
            return None
        group, told = announced(message.text), understood(message.text)
        self._of_group = self._of_group if group is None else group
        if isinstance(told, OomKill):
            told, self._of_group = replace(told, cgroup=told.cgroup or self._of_group), False
        return None if told is None else (message, told)

    def _data(self, message: Message, told: Xid | OomKill) -> dict[str, Any]:
        booted = utc_now() - timedelta(seconds=time.clock_gettime(time.CLOCK_MONOTONIC))
        at = booted + timedelta(microseconds=message.us)
        data = {name: value for name, value in asdict(told).items() if value is not None}
        if isinstance(told, Xid):
            data["gpu"] = self._gpu(told.pci)
        return data | {"said_at": at.isoformat(), "boot": self._boot, "us": message.us}

    def _gpu(self, pci: str) -> int | None:
        live: LiveHardware = self._runtime.live["hardware"]
        return next((gpu.index for gpu in live.facts if gpu.pci_bus_id == pci), None)


async def _records(descriptor: int) -> AsyncIterator[list[Message]]:
    """What there is, and then what comes; ends where the file does."""
    readable, loop = asyncio.Event(), asyncio.get_running_loop()
    while True:
        lines, ended = await asyncio.to_thread(_drain, descriptor)
        yield [message for message in map(of_record, lines) if message is not None]
        if ended:
            return
        readable.clear()
        loop.add_reader(descriptor, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(descriptor)


def _drain(descriptor: int) -> tuple[list[str], bool]:
    """What matters of the lines that can be read now, and whether there will be no more."""
    told: list[bytes] = []
    rest, ended = b"", False
    while not ended:
        try:
            data = os.read(descriptor, _RECORD_BYTES)
        except BrokenPipeError:
            continue  # records were overwritten before we read them
        except BlockingIOError:
            break
        *lines, rest = (rest + data).split(b"\n")
        told += [line for line in lines if any(word in line for word in _WORDS)]
        ended = not data
    return [line.decode("utf-8", "replace") for line in [*told, rest]], ended


async def _journal() -> AsyncIterator[list[Message]]:
    """Until journalctl ends, as it does at once where this user may not read the kernel's messages."""
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *_JOURNAL, stdin=quiet, stdout=asyncio.subprocess.PIPE, stderr=quiet, limit=_LINE_BYTES
    )
    assert process.stdout is not None
    try:
        while line := await process.stdout.readline():
            message = of_journal(line.decode("utf-8", "replace"))
            if message is not None:
                yield [message]
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
