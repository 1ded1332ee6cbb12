"""Search on SQLite: FTS5 over the table of entries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, bindparam, text
from sqlmodel import Session, col, delete, select

from sitrepd.storage.search import MARKS, Document, Found, Hit, Index, Question, SearchEntry, Term, parts_of

# The table of words and those that SQLite keeps behind it begin with this name.
TABLE = "search_text"
CREATE = (
    f"CREATE VIRTUAL TABLE {TABLE} USING fts5(name, text, scope, content='search_entry', content_rowid='id', "
    "tokenize='unicode61 remove_diacritics 2', prefix='1 2 3')"
)
# Of more facts than these the newest come first: to weigh a word that is everywhere costs more than it tells.
_WEIGHED = 500
_COUNTED = 1000
# A word that more facts hold than these tells nothing of which is best, and takes long to weigh.
_COMMON = 2000
_WORDS = 28
_IN = 400
# Scripts without spaces between words: each letter is a word, as no dictionary is at hand.
_UNSPACED = re.compile(
    r"([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])"
)
_GAP = "\u200b"

_NEWEST = text(f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH :asked ORDER BY rowid DESC LIMIT :most")
_MANY = text(f"SELECT 1 FROM {TABLE} WHERE {TABLE} MATCH :asked LIMIT 1 OFFSET {_COMMON}")
_RANKED = text(
    f"SELECT rowid FROM {TABLE} WHERE {TABLE} MATCH :asked AND rowid BETWEEN :low AND :high AND +rowid IN :rows "
    f"ORDER BY bm25({TABLE}, 6.0, 1.0, 0.0), rowid DESC"
).bindparams(bindparam("rows", expanding=True))
_SNIPPETS = text(
    f"SELECT rowid, highlight({TABLE}, 0, :open, :shut), snippet({TABLE}, 1, :open, :shut, '…', {_WORDS}) "
    f"FROM {TABLE} WHERE {TABLE} MATCH :asked AND rowid IN :rows"
).bindparams(bindparam("rows", expanding=True))
_ADD = text(f"INSERT INTO {TABLE} (rowid, name, text, scope) VALUES (:id, :name, :text, :scope)")
_DROP = text(f"INSERT INTO {TABLE} ({TABLE}, rowid, name, text, scope) VALUES ('delete', :id, :name, :text, :scope)")


class Fts5:
    """The words of `search_entry` in an index of their own, which every change of an entry must go through."""

    def create(self, connection: Connection) -> None:
        connection.exec_driver_sql(CREATE)

    def replace(self, db: Session, kind: str, numbers: Iterable[int], documents: Sequence[Document]) -> None:
        new: dict[int, list[dict[str, Any]]] = {one.number: _entries(one) for one in documents}
        for number in numbers:
            new.setdefault(number, [])
        for some in _portions(sorted(new)):
            self._replace(db, kind, {number: new[number] for number in some})

    def _replace(self, db: Session, kind: str, new: dict[int, list[dict[str, Any]]]) -> None:
        table = SearchEntry.__table__  # type: ignore[attr-defined]
        query = table.select().where(table.c.kind == kind, table.c.number.in_(list(new))).order_by(table.c.part)
        old: dict[int, list[dict[str, Any]]] = {}
        for row in db.connection().execute(query).mappings():
            old.setdefault(row["number"], []).append(dict(row))
        stale = [row for number, rows in old.items() if _without_ids(rows) != new[number] for row in rows]
        if stale:
            db.connection().execute(_DROP, _indexed(stale))
            db.connection().execute(table.delete().where(table.c.id.in_([row["id"] for row in stale])))
        fresh = [row for number, rows in new.items() if _without_ids(old.get(number, [])) != rows for row in rows]
        if not fresh:
            return
        last = db.connection().execute(text("SELECT max(id) FROM search_entry")).scalar() or 0
        rows = [{"id": last + place, **row} for place, row in enumerate(fresh, 1)]
        db.connection().execute(table.insert(), rows)
        db.connection().execute(_ADD, _indexed(rows))

    def clear(self, db: Session) -> None:
        db.exec(delete(SearchEntry))
        db.connection().execute(text(f"INSERT INTO {TABLE} ({TABLE}) VALUES ('rebuild')"))

    def find(self, db: Session, question: Question, any_term: bool = False) -> Found:
        if not question.terms:
            return Found()
        words = _match(question.terms, any_term)
        scoped = words + _scope(question)
        most = max(_COUNTED, question.offset + question.limit) + 1
        newest = self._rows(db, scoped, most)
        if len(newest) <= _WEIGHED:
            ordered = self._ranked(db, question.terms, newest)
        else:
            ordered = list(dict.fromkeys([*self._named(db, question.terms, scoped, most), *newest]))
        entries, more = self._facts(db, ordered, question)
        hits = self._hits(db, words, entries)
        return Found(hits, min(len(newest), most - 1), len(newest) == most, more)

    def naming(self, db: Session, word: str) -> set[tuple[str, int]]:
        rows = self._rows(db, f"{{text}}: ({_quoted(Term(word))})", -1)
        found: set[tuple[str, int]] = set()
        for some in _portions(rows):
            query = select(SearchEntry.kind, SearchEntry.number).where(col(SearchEntry.id).in_(some))
            found.update((kind, number) for kind, number in db.exec(query).all())
        return found

    @staticmethod
    def _rows(db: Session, asked: str, most: int) -> list[int]:
        return list(db.connection().execute(_NEWEST, {"asked": asked, "most": most}).scalars())

    def _named(self, db: Session, terms: Sequence[Term], scoped: str, most: int) -> list[int]:
        """Those that are called so; a word that is everywhere is in no name, or in too many."""
        if all(self._is_common(db, term) for term in terms):
            return []
        return self._rows(db, scoped.replace("{name text}", "{name}", 1), most)

    def _ranked(self, db: Session, terms: Sequence[Term], rows: list[int]) -> list[int]:
        """Best first by the terms that are not everywhere; newest first where all are."""
        rare = [term for term in terms if not self._is_common(db, term)] if rows else []
        if not rare:
            return rows
        told = {"asked": _match(rare, any_term=True), "rows": rows, "low": rows[-1], "high": rows[0]}
        ranked = db.connection().execute(_RANKED, told).scalars()
        return list(dict.fromkeys([*ranked, *rows]))

    @staticmethod
    def _is_common(db: Session, term: Term) -> bool:
        """Of a phrase that is so each of its words."""
        words = [Term(word) for word in term.text.split()] if not term.prefix else [term]
        queries = ({"asked": _match([word], any_term=False)} for word in words)
        return all(db.connection().execute(_MANY, asked).first() is not None for asked in queries)

    @staticmethod
    def _facts(db: Session, ordered: list[int], question: Question) -> tuple[list[Any], bool]:
        """The entries of the page, one a fact, and whether others follow."""
        first, wanted = question.offset, question.offset + question.limit
        table = SearchEntry.__table__  # type: ignore[attr-defined]
        names = [table.c[name] for name in ("id", "kind", "number", "session_id", "at", "state", "name")]
        seen: dict[tuple[str, int], Any] = {}
        for some in _portions(ordered):
            query = table.select().with_only_columns(*names).where(table.c.id.in_(some))
            by_id = {row.id: row for row in db.connection().execute(query)}
            for number in some:
                seen.setdefault((by_id[number].kind, by_id[number].number), by_id[number])
            if len(seen) > wanted:
                break
        return list(seen.values())[first:wanted], len(seen) > wanted

    @staticmethod
    def _hits(db: Session, words: str, entries: list[Any]) -> list[Hit]:
        if not entries:
            return []
        rows = [entry.id for entry in entries]
        told = {"asked": words, "rows": rows, "open": MARKS[0], "shut": MARKS[1]}
        marked = {row[0]: (row[1], row[2]) for row in db.connection().execute(_SNIPPETS, told)}
        return [
            Hit(one.kind, one.number, one.session_id, one.at, one.state, *(_joined(part) for part in marked[one.id]))
            for one in entries
        ]


def make() -> Index:
    return Fts5()


def _entries(one: Document) -> list[dict[str, Any]]:
    scope = f"kind{one.kind.replace('_', '')} session{one.session_id or 0}"
    kept = {"kind": one.kind, "number": one.number, "session_id": one.session_id, "at": one.at, "state": one.state}
    return [
        {**kept, "part": place, "name": _split(one.name), "text": _split(part), "scope": scope}
        for place, part in enumerate(parts_of(one.text))
    ]


def _without_ids(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "id"} for row in rows]


def _indexed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in ("id", "name", "text", "scope")} for row in rows]


def _match(terms: Sequence[Term], any_term: bool) -> str:
    return "{name text}: (" + (" OR " if any_term else " AND ").join(_quoted(term) for term in terms) + ")"


def _quoted(term: Term) -> str:
    """A string of FTS5's language, in which nothing has a meaning."""
    inside = _split(term.text).replace('"', '""')
    return f'"{inside}"{" *" if term.prefix else ""}'


def _scope(question: Question) -> str:
    told = []
    if question.kinds:
        told.append(" OR ".join(f"kind{kind.replace('_', '')}" for kind in question.kinds))
    if question.session_id is not None:
        told.append(f"session{question.session_id}")
    return "".join(f" AND ({{scope}}: ({one}))" for one in told)


def _split(told: str) -> str:
    return _UNSPACED.sub(rf"\1{_GAP}", told)


def _joined(told: str) -> str:
    return told.replace(_GAP, "").replace(MARKS[1] + MARKS[0], "")


def _portions(numbers: Sequence[int]) -> Iterable[list[int]]:
    for start in range(0, len(numbers), _IN):
        yield list(numbers[start : start + _IN])
