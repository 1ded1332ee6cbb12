"""Questions as they are typed, long texts in parts, and an index that never costs what is stored."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import Session, select
from tests.daemons import seed

from sitrepd.clock import utc_now
from sitrepd.errors import StoreUnusable
from sitrepd.settings import load_settings
from sitrepd.storage import events, search
from sitrepd.storage.base import Event
from sitrepd.storage.search import PART, Document, Question, SearchEntry, Term, index_of, parts_of, terms_of
from sitrepd.storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    seed(tmp_path)
    found = Store(load_settings(data_dir=tmp_path, port=0))
    yield found
    found.close()


def document(number: int, text: str, name: str = "") -> Document:
    return Document("finding", number, 1, utc_now(), None, name, text)


@pytest.mark.parametrize(
    ("asked", "terms"),
    [
        ("accept rate", [Term("accept"), Term("rate")]),
        ('"accept rate" x*', [Term("accept rate"), Term("x", prefix=True)]),
        ('"accept ra"*', [Term("accept ra", prefix=True)]),
        ('half "a phrase', [Term("half"), Term("a"), Term("phrase")]),
        ("a a", [Term("a")]),
        ("-- * \" ( ) :", []),
        ("tp\x00=\n8", [Term("tp"), Term("8")]),
        ("", []),
    ],
)  # fmt: skip
def test_a_question_becomes_terms(asked: str, terms: list[Term]) -> None:
    assert list(terms_of(asked)) == terms


def test_a_question_has_an_end() -> None:
    assert len(terms_of(" ".join(f"w{number}" for number in range(1000)))) == 32


def test_long_texts_are_cut_between_words() -> None:
    text = "word " * 20_000
    parts = parts_of(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= PART
    assert all(part.startswith(" word") for part in parts[1:])
    assert "".join(parts_of("x" * 100_000)) == "x" * 100_000


def test_what_does_not_change_is_not_written_again(store: Store) -> None:
    moment = utc_now()

    def put(text: str) -> list[int]:
        def job(db: Session) -> list[int]:
            told = Document("finding", 1, 1, moment, None, "", text)
            index_of(db).replace(db, "finding", [1], [told])
            return [number or 0 for number in db.exec(select(SearchEntry.id)).all()]

        return store.write(job)

    first = put("okapi")
    store.write(lambda db: index_of(db).replace(db, "finding", [], [document(2, "another")]))
    assert put("okapi") == [*first, *[number + 1 for number in first]]
    changed = put("quagga")
    assert (len(changed), first[0] in changed) == (2, False)


def test_words_of_a_fact_that_is_gone_are_gone(store: Store) -> None:
    store.write(
        lambda db: index_of(db).replace(db, "finding", [], [document(1, "okapi " * 10_000), document(2, "okapi")])
    )
    store.write(lambda db: index_of(db).replace(db, "finding", [1], []))
    with store.read() as db:
        assert [hit.number for hit in index_of(db).find(db, Question(terms_of("okapi"))).hits] == [2]
        assert index_of(db).naming(db, "okapi") == {("finding", 2)}


def test_a_name_is_no_mention(store: Store) -> None:
    documents = [document(1, "of another", name="C7"), document(2, "as in C7"), document(3, "C77, XC7 and c 7")]
    store.write(lambda db: index_of(db).replace(db, "finding", [], documents))
    with store.read() as db:
        assert index_of(db).naming(db, "C7") == {("finding", 2)}


def test_an_index_that_fails_costs_nothing_that_is_stored(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    def fail(db: Session, _touched: object) -> None:
        db.add(SearchEntry(kind="x", number=1, at=utc_now(), name="", text="", scope=""))
        db.flush()
        raise RuntimeError("no index today")

    store.before_commit(fail)
    with caplog.at_level(logging.ERROR):
        store.write(lambda db: events.record(db, "finding.created", "F1", None))
    assert "cannot be found by search" in caplog.text
    with store.read() as db:
        assert [one.subject for one in db.exec(select(Event)).all()] == ["F1"]
        assert db.exec(select(SearchEntry)).all() == []


def test_a_database_that_cannot_search_says_so() -> None:
    with pytest.raises(StoreUnusable, match="on oracle"):
        search._index("oracle")
