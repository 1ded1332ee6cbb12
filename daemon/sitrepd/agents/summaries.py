"""What a client's own summary of its conversation lost of the pinned facts of the checkpoint made before it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_WORD = re.compile(r"[\w./:=+%-]*\w")
_EXACT = re.compile(r"\d|^--|/|=|_")
_ANALYSIS = re.compile(r"<analysis>.*?</analysis>", re.DOTALL)
_ENOUGH = 0.6
_SHORT = 3


def lost(sections: list[Mapping[str, Any]], summary: str) -> list[dict[str, str]]:
    """The pinned facts that the summary does not hold, in the order of the checkpoint."""
    said = _Said(_ANALYSIS.sub("", summary))
    return [
        {"id": name, "what": what, "text": text} for name, what, text in _facts(sections) if not said.holds(what, text)
    ]


class _Said:
    """The words of a summary."""

    def __init__(self, text: str) -> None:
        self._text = _plain(text)
        self._words = set(_words(self._text))

    def holds(self, what: str, text: str) -> bool:
        """Word for word; else its numbers, flags and paths, and most of its other words: of a wish all of them."""
        wanted = _plain(text)
        if wanted in self._text:
            return True
        words = _words(wanted)
        if not words or any(word not in self._words for word in words if _EXACT.search(word)):
            return False
        plain = [word for word in words if not _EXACT.search(word) and len(word) > _SHORT]
        found = sum(1 for word in plain if word in self._words)
        return found >= (1.0 if what == "directive" else _ENOUGH) * len(plain)


def _facts(sections: list[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(id, what it is, its words) of each pinned fact."""
    for section in sections:
        for item in section["items"]:
            name = str(next(iter(item.get("ids", ())), ""))
            if section["name"] == "goal" and item.get("kind") == "goal" and item.get("goal"):
                yield name, "goal", item["goal"]
            elif item.get("kind") == "directive" and item.get("active"):
                yield name, "directive", item["text"]
            elif section["name"] == "next_steps" and item.get("state") in ("todo", "doing"):
                yield name, "next step", item["text"]
            elif section["name"] in ("root_causes", "decisions") and item.get("status") in ("confirmed", "open"):
                yield name, str(item.get("label") or item.get("kind")), item["title"]
            elif section["name"] == "best" and item.get("kind") == "best":
                yield name, "best configuration", f"{item['label']} {item['value']}"


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*`_\"'“”’]+", lambda found: "_" if found[0] == "_" else "", text.casefold()).split())


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word]
