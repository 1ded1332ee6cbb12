"""Keeps search in step: what a transaction changes can be found as soon as it is committed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from functools import partial

from sqlmodel import Session, col, select

from sitrepd.errors import StoreUnusable
from sitrepd.facts import Noun
from sitrepd.history.words import documents
from sitrepd.slices import Registry
from sitrepd.storage import events, ids
from sitrepd.storage.base import Event
from sitrepd.storage.search import SearchState, index_of
from sitrepd.storage.store import Store

log = logging.getLogger(__name__)
# From so many missed events on it is quicker to read all facts anew.
_MANY = 20_000
# More facts than these are read while the daemon serves already.
_AT_ONCE = 5_000
_BATCH = 500
_KINDS = ("created", "changed", "imported", "ended", "deleted", "tied")


def keep_in_step(store: Store, registry: Registry) -> None:
    """Catch up with what was stored while nobody looked, and follow every transaction of the store.

    A large store of an earlier version is read beside the work, little by little; until then not all of it is found.
    """
    indexer = Indexer(registry)
    with store.read() as db:
        behind = indexer.is_behind(db)
        keys = indexer.all_facts(db) if behind and indexer.knows_nothing(db) else []
    if len(keys) > _AT_ONCE:
        indexer.reading = True
        threading.Thread(target=_read_all, args=(store, indexer, keys), name="sitrep-search", daemon=True).start()
    elif behind:
        store.write(indexer.catch_up)
    store.before_commit(indexer.follow)


def _read_all(store: Store, indexer: Indexer, keys: Sequence[tuple[str, int]]) -> None:
    """A daemon that ends in between leaves it to the next one to begin anew."""
    try:
        store.write(lambda db: index_of(db).clear(db))
        for start in range(0, len(keys), _BATCH):
            store.write(partial(indexer.put, keys=keys[start : start + _BATCH]))
        store.write(indexer.has_read)
    except StoreUnusable:
        return


class Indexer:
    """Puts the facts that events name into the index, or takes them out where they are gone."""

    def __init__(self, registry: Registry) -> None:
        self._nouns = {noun.word: noun for noun in registry.nouns if noun.searched}
        self._registry = registry
        self.sound = True
        """Whether all that was stored since could be put into the index."""
        self.reading = False
        """Whether what was stored before is still being read; only then and when sound need nobody look again."""

    def is_behind(self, db: Session) -> bool:
        state = db.get(SearchState, 1)
        return state is None or state.event < events.last_event_id(db)

    def catch_up(self, db: Session) -> None:
        """All that happened since the last event that was seen; everything, where that is unknown or long ago."""
        state = db.get(SearchState, 1)
        if state is None or self.knows_nothing(db):
            index_of(db).clear(db)
            self.put(db, self.all_facts(db))
        else:
            query = select(Event.kind, Event.subject).where(col(Event.id) > state.event)
            self._put(db, db.exec(query).all())
        self.seen(db)

    def knows_nothing(self, db: Session) -> bool:
        """Whether all facts must be read anew: they never were, or too much has happened since."""
        state = db.get(SearchState, 1)
        return state is None or events.last_event_id(db) - state.event > _MANY

    def all_facts(self, db: Session) -> list[tuple[str, int]]:
        """(kind, number) in the order in which they were told."""
        found = [
            (at, noun.word, number or 0)
            for noun in self._nouns.values()
            for number, at in db.exec(select(noun.table.id, noun.table.at)).all()
        ]
        return [(word, number) for _, word, number in sorted(found)]

    def follow(self, db: Session, touched: Iterable[tuple[str, str]]) -> None:
        """Called with the events of a transaction before it is committed."""
        try:
            self._put(db, touched)
            if self.sound and not self.reading:
                self.seen(db)
        except Exception:
            # What is missed now is caught up by the next daemon.
            self.sound = False
            raise

    def has_read(self, db: Session) -> None:
        """All facts of before are in the index; what could not be followed meanwhile is left to the next daemon."""
        self.reading = False
        if self.sound:
            self.seen(db)

    def _put(self, db: Session, touched: Iterable[tuple[str, str]]) -> None:
        found = (self._key(kind, subject) for kind, subject in touched)
        self.put(db, list(dict.fromkeys(key for key in found if key is not None)))

    def put(self, db: Session, keys: Sequence[tuple[str, int]]) -> None:
        """Read these facts and let them be found as they are now."""
        by_word: dict[str, list[int]] = {}
        for word, number in keys:
            by_word.setdefault(word, []).append(number)
        for word, numbers in by_word.items():
            found = documents(db, self._registry, self._nouns[word], numbers)
            index_of(db).replace(db, word, numbers, found)

    def _key(self, kind: str, subject: str) -> tuple[str, int] | None:
        word, _, what = kind.partition(".")
        noun = self._nouns.get(word)
        number = number_of(noun, subject) if noun is not None and what in _KINDS else None
        return (word, number) if number is not None else None

    @staticmethod
    def seen(db: Session) -> None:
        """All events so far need not be looked at again."""
        db.flush()
        state = db.get(SearchState, 1) or SearchState()
        state.event = events.last_event_id(db)
        db.add(state)


def number_of(noun: Noun, subject: str) -> int | None:
    """The number of a public id of that kind."""
    if not noun.prefix:
        return ids.parse_number(subject)
    parsed = ids.parse_id(subject)
    return parsed[1] if parsed is not None and parsed[0] == noun.prefix else None
