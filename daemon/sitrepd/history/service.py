"""Finding what was told."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session

from sitrepd.facts import Noun, before
from sitrepd.history.models import FoundFact, SearchPage
from sitrepd.history.words import kinds_of
from sitrepd.slices import Registry
from sitrepd.storage import ids
from sitrepd.storage.search import MARKS, Hit, Question, index_of, terms_of

MARK = "**"


def find(db: Session, registry: Registry, question: Question, mark: tuple[str, str] = (MARK, MARK)) -> SearchPage:
    """Facts that hold all words, best first; where there are none, those that hold any of them.

    What was looked for stands between the two of `mark`; only MARKS cannot be mistaken for what was told.
    """
    index = index_of(db)
    found = index.find(db, question)
    every = bool(found.hits) or question.offset > 0 or len(question.terms) < 2
    if not every:
        found = index.find(db, question, any_term=True)
    data = [_told(registry, one, mark) for one in found.hits]
    following = str(question.offset + len(data)) if found.more else None
    return SearchPage(
        data=data, count=found.count, at_least=found.at_least, matched="all" if every else "any", next_cursor=following
    )


def question(
    registry: Registry, asked: str, kinds: Sequence[str], session_id: int | None, limit: int, cursor: str | None
) -> Question:
    offset = before(cursor) if cursor is not None else 0
    searched = [noun for noun in registry.nouns if noun.searched]
    return Question(terms_of(asked), kinds_of(searched, kinds), session_id, limit, offset)


def _told(registry: Registry, hit: Hit, mark: tuple[str, str]) -> FoundFact:
    noun: Noun = registry.by_word[hit.kind]
    return FoundFact(
        id=noun.public_id(hit.number), type=hit.kind, at=hit.at, state=hit.state,
        session=ids.public_id("S", hit.session_id) if hit.session_id else None,
        name=_marked(hit.name, mark) or None, snippet=_marked(hit.snippet, mark),
    )  # fmt: skip


def _marked(text: str, mark: tuple[str, str]) -> str:
    return text.replace(MARKS[0], mark[0]).replace(MARKS[1], mark[1])
