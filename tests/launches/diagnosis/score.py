"""`python -m tests.launches.diagnosis.score [RECORDS.jsonl …]`: how often each category is right, unknown, wrong.

Without files the corpus is scored; a file has one object a line, with `category` and `log_excerpt`.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.launches.diagnosis.corpus import entries

from sitrepd.launches.diagnosis import diagnose

Labelled = tuple[str, str | None, list[str]]


def main(paths: list[str]) -> None:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for name, category, lines in _records(paths) if paths else _corpus():
        told = diagnose(lines).category
        verdict = "right" if told == category else "unknown" if told in (None, "unknown") else "wrong"
        table[category or "nothing failed"][verdict] += 1
        if verdict == "wrong":
            _say(f"{name}: {category} was called {told}")
    _say(f"{'CATEGORY':24}{'RIGHT':>8}{'UNKNOWN':>9}{'WRONG':>7}")
    for category, counts in sorted(table.items()):
        _say(f"{category:24}{counts['right']:>8}{counts['unknown']:>9}{counts['wrong']:>7}")
    total = sum(table.values(), Counter[str]())
    _say(f"{'all':24}{total['right']:>8}{total['unknown']:>9}{total['wrong']:>7}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _corpus() -> Iterable[Labelled]:
    return ((entry.name, entry.category, entry.lines) for entry in entries())


def _records(paths: list[str]) -> Iterator[Labelled]:
    for path in paths:
        for line in Path(path).read_text().splitlines():
            told = json.loads(line)
            yield str(told.get("issue")), told["category"], told["log_excerpt"].split("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
