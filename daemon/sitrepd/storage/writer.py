"""The one write thread: jobs are queued, run in one transaction together, and acknowledged after its commit."""

from __future__ import annotations

import logging
import queue
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session

from sitrepd.errors import StoreUnusable
from sitrepd.storage import events

log = logging.getLogger(__name__)
T = TypeVar("T")
# Called with what was recorded in a transaction, just before it is committed.
BeforeCommit = Callable[[Session, Sequence[tuple[str, str]]], None]
_MOST_JOBS = 256
_LITTLE_BYTES = 1 << 20


@dataclass(slots=True)
class _Job:
    run: Callable[[Session], Any]
    future: Future[Any]
    outcome: Any = None


class Writer:
    """Runs jobs `fn(db) -> result` one after another; each is undone alone when it fails."""

    def __init__(self, engine: Engine, folder: Path, committed: Callable[[Collection[str]], None]) -> None:
        self._engine = engine
        self._folder = folder
        self._committed = committed
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = False
        self.before_commit: BeforeCommit | None = None
        self._thread = threading.Thread(target=self._loop, name="sitrep-writer", daemon=True)
        self._thread.start()

    def submit(self, run: Callable[[Session], T]) -> Future[T]:
        """Queue a job; the future holds its result once the commit that contains it is durable."""
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(StoreUnusable("The daemon is stopping: nothing more is stored."))
        else:
            self._jobs.put(_Job(run, future))
        return future

    def close(self) -> None:
        """Finish what is queued, then end the thread."""
        self._closed = True
        self._jobs.put(None)
        self._thread.join()
        self._engine.dispose()

    def _loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            batch, last = self._gather(job)
            self._run(batch)
            if last:
                return

    def _gather(self, first: _Job) -> tuple[list[_Job], bool]:
        batch = [first]
        while len(batch) < _MOST_JOBS:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _run(self, batch: list[_Job]) -> None:
        # Whoever waited may have gone; from here on a job can no longer be cancelled.
        batch = [job for job in batch if job.future.set_running_or_notify_cancel()]
        failures: dict[int, BaseException] = {}
        try:
            with Session(self._engine, expire_on_commit=False) as db:
                for job in batch:
                    try:
                        with db.begin_nested():
                            job.outcome = job.run(db)
                    except Exception as error:
                        failures[id(job)] = explain(error, self._folder)
                kinds = self._complete(db)
                db.commit()
        except Exception as error:
            told = explain(error, self._folder)
            failures = {id(job): failures.get(id(job), told) for job in batch}
        else:
            self._committed(kinds)
        for job in batch:
            failure = failures.get(id(job))
            if failure is not None:
                job.future.set_exception(failure)
            else:
                job.future.set_result(job.outcome)

    def _complete(self, db: Session) -> frozenset[str]:
        """Do what goes with the jobs in their transaction, which never costs what they have stored.

        The kinds of the events that were recorded.
        """
        touched = events.touched(db)
        kinds = frozenset(kind for kind, _ in touched)
        if self.before_commit is None or not touched:
            return kinds
        try:
            with db.begin_nested():
                self.before_commit(db, touched)
        except Exception:
            log.exception("what was stored cannot be found by search until the next start")
        return kinds


def explain(error: BaseException, folder: Path | None = None) -> BaseException:
    """A database error as a StoreUnusable that says what to do; any other error as it is."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.DatabaseError) or isinstance(cause, sqlite3.IntegrityError):
        return error
    text = str(cause)
    if "disk I/O error" in text and folder is not None and shutil.disk_usage(folder).free < _LITTLE_BYTES:
        # SQLite's shared memory and log fail in their own way when no page is left.
        return StoreUnusable(f"{_ADVICE['disk is full']} (SQLite: {text})")
    for sign, advice in _ADVICE.items():
        if sign in text:
            return StoreUnusable(f"{advice} (SQLite: {text})")
    return error


_ADVICE = {
    "disk is full": "The disk of the store is full: nothing was stored. Free some space; the daemon goes on by itself.",
    "readonly": "The store is read-only: nothing was stored. Make the folder and its files writable for this user.",
    "disk I/O error": "The disk of the store gives I/O errors: nothing was stored. Check the disk and the mount.",
    "malformed": "The database is damaged. Stop the daemon, keep the file, restore a backup-*.db from the same folder.",
    "not a database": "The database file is not an SQLite database. Move it away, or restore a backup-*.db.",
    "locked": "Another program holds the database locked. Close it (a database browser?) and try again.",
}
