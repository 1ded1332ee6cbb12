"""The one write thread."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from sqlmodel import Session, select
from tests.helpers import PATIENCE_S

from sitrepd.errors import StoreUnusable
from sitrepd.settings import load_settings
from sitrepd.storage import events, ids
from sitrepd.storage.base import Counter
from sitrepd.storage.store import Store


@pytest.fixture
def store(tmp_path: Path):
    opened = Store(load_settings(data_dir=tmp_path, port=0))
    yield opened
    opened.close()


def counts(store: Store) -> dict[str, int]:
    with store.read() as db:
        return {row.word: row.last for row in db.exec(select(Counter)).all()}


def test_a_failed_job_undoes_itself_alone(store: Store) -> None:
    held = threading.Event()

    def wait(_db: Session) -> None:
        held.wait(PATIENCE_S)

    def good(db: Session) -> int:
        return ids.allocate(db, "launch")

    def bad(db: Session) -> None:
        ids.allocate(db, "finding")
        raise RuntimeError("no")

    blocker = store._writer.submit(wait)
    futures = [store._writer.submit(job) for job in (good, bad, good)]
    held.set()
    blocker.result(10)
    assert futures[0].result(10) == 1
    with pytest.raises(RuntimeError):
        futures[1].result(10)
    assert futures[2].result(10) == 2
    assert counts(store) == {"launch": 2}


def test_jobs_that_wait_share_a_commit(store: Store) -> None:
    held = threading.Event()
    before = store.bell.commits
    blocker = store._writer.submit(lambda _db: held.wait(PATIENCE_S))
    futures = [store._writer.submit(lambda db: ids.allocate(db, "launch")) for _ in range(100)]
    held.set()
    blocker.result(10)
    assert [future.result(10) for future in futures] == list(range(1, 101))
    assert store.bell.commits - before <= 3


def test_numbers_are_never_used_twice(store: Store) -> None:
    first = store.write(lambda db: ids.allocate(db, "launch", 5))
    assert first == 1
    assert store.write(lambda db: ids.allocate(db, "launch")) == 6


def test_a_caller_that_gives_up_does_not_harm_the_writer(store: Store) -> None:
    held = threading.Event()
    blocker = store._writer.submit(lambda _db: held.wait(PATIENCE_S))
    given_up = store._writer.submit(lambda db: ids.allocate(db, "launch"))
    assert given_up.cancel()
    held.set()
    blocker.result(10)
    assert not blocker.cancel()
    assert store.write(lambda db: ids.allocate(db, "launch")) == 1


def test_a_closed_writer_refuses(tmp_path: Path) -> None:
    store = Store(load_settings(data_dir=tmp_path / "closed", port=0))
    store.close()
    with pytest.raises(StoreUnusable, match="stopping"):
        store.write(lambda db: None)


def test_the_bell_rings_after_a_commit(store: Store) -> None:
    async def main() -> list[bool]:
        store.bell.bind(asyncio.get_running_loop())
        heard = []
        async for rang in store.bell.listen(0.05):
            heard.append(rang)
            if len(heard) == 1:
                await store.write_async(lambda db: events.record(db, "launch.created", "L1", None))
            if rang:
                break
        return heard

    heard = asyncio.run(main())
    assert heard[0] is False
    assert heard[-1] is True


def test_closing_the_bell_ends_listeners(store: Store) -> None:
    async def main() -> int:
        store.bell.bind(asyncio.get_running_loop())
        heard = 0
        async for _ in store.bell.listen(0.01):
            heard += 1
            store.bell.close()
        return heard

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize("text", ["L14", "l14", " L14 "])
def test_ids_are_read(text: str) -> None:
    assert ids.parse_id(text) == ("L", 14)


@pytest.mark.parametrize("text", ["", "14", "L0", "L-1", "L01", "LL1", "L1.5", "L" + "9" * 30])
def test_what_is_no_id(text: str) -> None:
    assert ids.parse_id(text) is None
