"""The store: a folder with one database, one writer, one daemon."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Engine
from sqlmodel import Session

from sitrepd.errors import StoreUnusable
from sitrepd.settings import Settings
from sitrepd.storage import engine as engines
from sitrepd.storage import migrations
from sitrepd.storage.events import Bell
from sitrepd.storage.filesystem import filesystem_type, is_network_path
from sitrepd.storage.writer import BeforeCommit, Writer, explain

T = TypeVar("T")


class Store:
    """Opened by one process at a time; `read` and `write` are the only ways in."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.bell = Bell()
        self._lock_file = prepare_folder(settings)
        try:
            migrations.check(settings.database_path)
            self.backup = migrations.upgrade(settings.database_path)
            self.token = load_token(settings.token_path)
        except BaseException:
            os.close(self._lock_file)
            raise
        self._reader: Engine = engines.make_reader(settings.database_path)
        self._writer = Writer(engines.make_writer(settings.database_path), settings.data_dir, self.bell.ring)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A read-only view that stays the same while it is open."""
        with Session(self._reader, expire_on_commit=False) as db:
            try:
                yield db
            except Exception as error:
                told = explain(error, self.settings.data_dir)
                if told is error:
                    raise
                raise told from error

    def write(self, job: Callable[[Session], T]) -> T:
        """Run `job` in the write thread and wait until it is durable."""
        return self._writer.submit(job).result()

    async def write_async(self, job: Callable[[Session], T]) -> T:
        """As `write`, without holding up the event loop."""
        return await asyncio.wrap_future(self._writer.submit(job))

    def before_commit(self, follow: BeforeCommit) -> None:
        """From now on call `follow` with what each transaction has recorded, just before its commit."""
        self._writer.before_commit = follow

    def close(self) -> None:
        self._writer.close()
        self._reader.dispose()
        os.close(self._lock_file)


def prepare_folder(settings: Settings) -> int:
    """Make the store's folder and take its lock; the descriptor holds the lock until it is closed."""
    folder = settings.data_dir
    if is_network_path(folder) and not settings.allow_network_filesystem:
        raise StoreUnusable(
            f"{folder} is on a network file system ({filesystem_type(folder)}), where SQLite can lose data. "
            "Choose a local folder with --data-dir or SITREP_DATA_DIR, or set SITREP_ALLOW_NETWORK_FILESYSTEM=true to "
            "take the risk."
        )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.launches_dir.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreUnusable(
            f"The store's folder {folder} cannot be used: {error.strerror}. Nothing was changed. "
            "Make it writable for this user, free some space, or choose another one with --data-dir or SITREP_DATA_DIR."
        ) from error
    return _take_lock(descriptor, folder)


def _take_lock(descriptor: int, folder: Path) -> int:
    try:
        # The kernel drops the lock with the process, however that ends.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise StoreUnusable(
            f"Another Sitrep daemon (pid {holder}) already serves {folder}. Use it, stop it with `kill {holder}`, or "
            "choose another store with --data-dir."
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def load_token(path: Path) -> str:
    """The bearer token of the TCP door, made at the first start, readable by this user alone."""
    try:
        if path.exists():
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
            token = path.read_text().strip()
            if len(token) >= 32:
                return token
        token = secrets.token_urlsafe(32)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.touch(mode=0o600)
        partial.write_text(token + "\n")
        partial.replace(path)
    except OSError as error:
        right = "Free some space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "Make it readable and writable"
        raise StoreUnusable(f"The token file {path} cannot be used: {error.strerror}. {right}.") from error
    return token
