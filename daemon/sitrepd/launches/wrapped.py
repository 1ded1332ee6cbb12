"""Lines that a container engine has wrapped, back to what the server printed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

Unwrap = Callable[[str], list[str]]
_CRI = re.compile(r"\S+ (?:stdout|stderr) ([FP]) ?(.*)", re.DOTALL)


def unwrapping(form: str | None) -> Unwrap:
    """For `docker` (JSON lines), `cri` (Kubernetes, podman) or None; a piece of a long line waits for its rest."""
    if form == "docker":
        return _Pieces(_docker).lines
    if form == "cri":
        return _Pieces(_cri).lines
    return lambda line: [line]


class _Pieces:
    def __init__(self, read: Callable[[str], tuple[str, bool]]) -> None:
        self._read = read
        self._begun = ""

    def lines(self, line: str) -> list[str]:
        text, whole = self._read(line)
        text = self._begun + text
        self._begun = "" if whole else text
        return text.replace("\r\n", "\n").replace("\r", "\n").split("\n") if whole else []


def _docker(line: str) -> tuple[str, bool]:
    """A line that is no JSON is handed on as it is."""
    try:
        text = json.loads(line)["log"]
    except (ValueError, KeyError, TypeError):
        return line, True
    return (text.removesuffix("\n"), text.endswith("\n")) if isinstance(text, str) else (line, True)


def _cri(line: str) -> tuple[str, bool]:
    found = _CRI.match(line)
    return (found[2], found[1] == "F") if found else (line, True)
