"""A matrix of paths between GPUs, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from sitrepd.hardware.ranges import ranges
from sitrepd.hardware.topology import SELF, UNKNOWN

_NEAREST_FIRST = ("PIX", "PXB", "PHB", "NODE", "SYS")


def grouped(matrix: Sequence[Sequence[str]]) -> str | None:
    """`PXB within 0-1, 2-3; NODE within 0-3; else SYS`, or all rows where the GPUs do not fall into such groups."""
    silent = [number for number, row in enumerate(matrix) if set(row) <= {SELF, UNKNOWN}]
    pairs = {(a, b): matrix[a][b] for a, b in combinations(range(len(matrix)), 2) if not {a, b} & {*silent}}
    said = _said(matrix, pairs)
    return f"{said}; not known of GPU {ranges(silent)}" if said and silent else said


def _said(matrix: Sequence[Sequence[str]], pairs: Mapping[tuple[int, int], str]) -> str | None:
    words = sorted(set(pairs.values()), key=_distance)
    if not words:
        return None
    if len(words) == 1:
        return f"{words[0]} between all"
    told = []
    for at, word in enumerate(words[:-1]):
        near = {pair for pair, path in pairs.items() if path in words[: at + 1]}
        groups = _groups(len(matrix), near)
        if any(pair not in near for group in groups for pair in combinations(group, 2)):
            return "; ".join(f"GPU {number}: {' '.join(row)}" for number, row in enumerate(matrix))
        told.append(f"{word} within {', '.join(ranges(group).replace(', ', '+') for group in groups)}")
    return "; ".join([*told, f"else {words[-1]}"])


def _distance(word: str) -> tuple[int, str]:
    if word.startswith("NV"):
        return -int(word[2:] or 0), word
    return (_NEAREST_FIRST.index(word) if word in _NEAREST_FIRST else len(_NEAREST_FIRST)) + 1, word


def _groups(count: int, near: set[tuple[int, int]]) -> list[list[int]]:
    """Those that are joined, directly or over others; a lone GPU is no group."""
    of = list(range(count))
    for a, b in near:
        first, second = of[a], of[b]
        of = [first if group == second else group for group in of]
    found = [[number for number in range(count) if of[number] == group] for group in sorted(set(of))]
    return [group for group in found if len(group) > 1]
