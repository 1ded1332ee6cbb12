"""Sections and items as text, kept: of a checkpoint, most are the same as in the one before."""

from __future__ import annotations

import json
import marshal
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from sitrepd.checkpoints.budget import Part

_T = TypeVar("_T")
_PARTS = 40
_TEXTS = 2_000
_LONGEST = 2_000
_BY_VALUE = 2  # later versions of the format tell equal values apart by how they are kept in memory
_PLACING = frozenset({"order", "priority", "pinned"})
# What a template looks at besides its section, and what its macro `item` looks at besides the item and `section.terse`.
_WIDER = re.compile(r"\b(?:sections|checkpoint)\b")
_WIDER_THAN_ITEM = re.compile(r"\b(?:sections|checkpoint|section(?!\.terse\b)|order|priority|pinned)\b")


class KeptTexts:
    """What the shipped templates made last of sections and of items, until one of them changes.

    A template that looks at more than its section is asked every time, and so is one for an item whose text follows
    from more than what is said of it.
    """

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._stamp: dict[str, int] = {}
        self._parts: OrderedDict[bytes, Part] = OrderedDict()
        self._texts: OrderedDict[bytes, str] = OrderedDict()
        self._wider: dict[str, tuple[bool, bool]] = {}

    def look(self) -> None:
        """Forget everything if a template has changed."""
        stamp = {path.name: path.stat().st_mtime_ns for path in self._folder.glob(f"*{self._suffix}")}
        if stamp != self._stamp:
            self._stamp = stamp
            for kept in (self._parts, self._texts, self._wider):
                kept.clear()

    def part(self, section: Mapping[str, Any], make: Callable[[], Part]) -> Part:
        """What is known of the section (plain JSON), else what `make` makes of it."""
        if self._looks_wider(section["name"])[0]:
            return make()
        return _latest(self._parts, _key(section), make, _PARTS)

    def text(self, section: Mapping[str, Any], item: Mapping[str, Any], make: Callable[[], str]) -> str:
        """What is known of the section's item, wherever it stands, else what `make` makes of it."""
        if self._looks_wider(section["name"])[1]:
            return make()
        said = {name: value for name, value in item.items() if name not in _PLACING}
        key = _key([section["name"], section["terse"], said])
        known = self._texts.get(key)
        text = make() if known is None else known
        return text if len(text) > _LONGEST else _latest(self._texts, key, lambda: text, _TEXTS)

    def _looks_wider(self, name: str) -> tuple[bool, bool]:
        """Whether its template looks at more than the section, and whether its items look at more than themselves."""
        found = self._wider.get(name)
        if found is None:
            path = self._folder / f"{name}{self._suffix}"
            whole = path.read_text() if path.is_file() else ""
            shared = "".join(one.read_text() for one in self._folder.glob(f"_*{self._suffix}"))
            macro = whole.partition("{% macro item(")[2]
            found = self._wider[name] = (
                not whole or _WIDER.search(whole + shared) is not None,
                not macro or _WIDER_THAN_ITEM.search(macro + shared) is not None,
            )
        return found


def _key(told: Any) -> bytes:
    """Of plain JSON, its whole value: what differs only in a type, as 1 and true, has another key too."""
    try:
        said = marshal.dumps(told, _BY_VALUE)
    except ValueError:  # a subclass of str, say
        said = json.dumps(told).encode()
    return blake2b(said, digest_size=16).digest()


def _latest(kept: OrderedDict[bytes, _T], key: bytes, make: Callable[[], _T], most: int) -> _T:
    """What is kept under the key, made if need be; what was not asked for longest gives way. Threads may share it."""
    known = kept.pop(key, None)
    kept[key] = value = make() if known is None else known
    if len(kept) > most:
        kept.popitem(last=False)
    return value
