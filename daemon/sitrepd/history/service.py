"""Finding what was told."""

from __future__ import annotations

from collections.abc import Sequence

from sqlmodel import Session

from sitrepd.errors import InvalidFact
from sitrepd.facts import Noun, before
from sitrepd.history.models import FoundFact, SearchPage
from sitrepd.slices import Registry
from sitrepd.storage import ids
from sitrepd.storage.search import MARKS, Found, Hit, Question, index_of, terms_of

MARK = "**"
_OTHER_WORDS = {"bench": "benchmark", "next": "next_step", "step": "next_step"}


def kinds_of(registry: Registry, told: Sequence[str]) -> tuple[str, ...]:
    """Words for facts, in the singular or plural, as the API or the command line has them."""
    known = {noun.word: noun.word for noun in registry.nouns if noun.searched}
    known |= {noun.plural.replace("-", "_"): noun.word for noun in registry.nouns if noun.searched} | _OTHER_WORDS
    found = []
    for one in (part for told_one in told for part in told_one.split(",")):
        word = known.get(one.strip().lower().replace("-", "_"))
        if word is None:
            names = ", ".join(noun.word for noun in registry.nouns if noun.searched)
            raise InvalidFact(f"kind={one!r} is no kind of fact: use {names}.")
        found.append(word)
    return tuple(dict.fromkeys(found))


def find(db: Session, registry: Registry, question: Question) -> SearchPage:
    """Facts that hold all words, best first; where there are none, those that hold any of them."""
    index = index_of(db)
    found = index.find(db, question)
    every = bool(found.hits) or question.offset > 0 or len(question.terms) < 2
    if not every:
        found = index.find(db, question, any_term=True)
    data = [_told(registry, one) for one in found.hits]
    following = str(question.offset + len(data)) if found.more else None
    return SearchPage(
        data=data, count=found.count, at_least=found.at_least, matched="all" if every else "any", next_cursor=following
    )


def question(
    registry: Registry, asked: str, kinds: Sequence[str], session_id: int | None, limit: int, cursor: str | None
) -> Question:
    offset = before(cursor) if cursor is not None else 0
    return Question(terms_of(asked), kinds_of(registry, kinds), session_id, limit, offset)


def _told(registry: Registry, hit: Hit) -> FoundFact:
    noun: Noun = registry.by_word[hit.kind]
    return FoundFact(
        id=noun.public_id(hit.number), type=hit.kind, at=hit.at, state=hit.state,
        session=ids.public_id("S", hit.session_id) if hit.session_id else None,
        name=marked(hit.name) or None, snippet=marked(hit.snippet),
    )  # fmt: skip


def marked(text: str) -> str:
    return text.replace(MARKS[0], MARK).replace(MARKS[1], MARK)


__all__: Sequence[str] = ("MARK", "Found", "find", "kinds_of", "marked", "question")
