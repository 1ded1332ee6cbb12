"""Sections as text, kept: of a checkpoint, most are the same as in the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sitrepd.checkpoints.budget import Part

_MOST = 40
_WIDER = re.compile(r"\b(?:sections|checkpoint)\b")


class KeptParts:
    """What the templates of a folder made of a section, until a file there changes.

    A template that looks at more than its own section (`sections`, `checkpoint`) is asked every time.
    """

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix
        self._stamp: dict[str, int] = {}
        self._wider: dict[str, bool] = {}
        self._parts: OrderedDict[bytes, Part] = OrderedDict()

    def look(self) -> None:
        """Forget everything if a template has changed."""
        stamp = {path.name: path.stat().st_mtime_ns for path in self._folder.glob(f"*{self._suffix}")}
        if stamp != self._stamp:
            self._stamp = stamp
            self._wider.clear()
            self._parts.clear()

    def part(self, section: Mapping[str, Any], make: Callable[[], Part]) -> Part:
        """What is known of the section, else what `make` makes of it, if it makes something."""
        if self._looks_wider(section["name"]):
            return make()
        key = hashlib.sha256(json.dumps(section).encode()).digest()
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = make()
            if len(self._parts) > _MOST:
                self._parts.popitem(last=False)
        return found

    def _looks_wider(self, name: str) -> bool:
        if name not in self._wider:
            path = self._folder / f"{name}{self._suffix}"
            self._wider[name] = not path.is_file() or _WIDER.search(path.read_text()) is not None
        return self._wider[name]
