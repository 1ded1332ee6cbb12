"""Public ids: a letter and a number that is counted over the whole store and never used twice."""

from __future__ import annotations

import re
from collections.abc import Collection

from sqlmodel import Session

from sitrepd.storage.base import Counter

_ID = re.compile(r"([A-Z])([1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[0-9]{1,18}")


def public_id(prefix: str, number: int) -> str:
    return f"{prefix}{number}"


def parse_id(text: str) -> tuple[str, int] | None:
    """("L", 14) for "L14" (or "l14"), None for anything else."""
    match = _ID.fullmatch(text.strip().upper())
    return (match[1], int(match[2])) if match else None


def parse_number(text: str) -> int | None:
    """14 for "14", None for what is no number of a row."""
    return int(text) if _NUMBER.fullmatch(text) else None


def allocate(db: Session, word: str, how_many: int = 1) -> int:
    """Reserve `how_many` numbers for facts of kind `word`; the first of them is returned."""
    counter = _counter(db, word)
    first = counter.last + 1
    counter.last += how_many
    return first


def take(db: Session, word: str, numbers: Collection[int]) -> bool:
    """Reserve these very numbers, if all of them are higher than any that facts of kind `word` have had."""
    counter = _counter(db, word)
    if not numbers or min(numbers) <= counter.last:
        return False
    counter.last = max(numbers)
    return True


def _counter(db: Session, word: str) -> Counter:
    counter = db.get(Counter, word, with_for_update=True)
    if counter is None:
        counter = Counter(word=word)
        db.add(counter)
    return counter
