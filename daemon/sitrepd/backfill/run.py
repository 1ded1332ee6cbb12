"""All files below the folders, read side by side, and what they come to together."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from sitrepd.backfill import commands, tie
from sitrepd.backfill.commands import Written
from sitrepd.backfill.files import Candidate, Walk, writers
from sitrepd.backfill.found import Found, Passed, Reading, Result, Start, figures
from sitrepd.backfill.read import Asked, read_file

_ALONE_BYTES = 48 << 20
_MOST_WORKERS = 8
_TOGETHER = 32
_BIG_BYTES = 4 << 20


def find(
    folders: Sequence[str], zone: str | None = None, progress: Callable[[int, int], None] = lambda _files, _bytes: None
) -> Found:
    """Read what lies below the folders; `progress` is told how many files of how many bytes there are."""
    walk = Walk()
    candidates = list(walk.files([os.path.abspath(folder) for folder in folders]))
    size = sum(one.size for one in candidates)
    progress(len(candidates), size)
    asked = Asked(tuple(os.path.abspath(folder) for folder in folders), zone)
    found = Found([os.path.abspath(folder) for folder in folders], len(candidates), size)
    written: list[Written] = []
    for reading, of_file in _readings(candidates, asked, size):
        written += of_file
        found.starts += reading.starts
        found.results += reading.results
        found.runs += reading.runs
        found.not_understood += reading.passed
    found.not_understood = sorted([*walk.problems, *found.not_understood], key=lambda one: one.path)
    found.passed_over = dict(walk.passed_over.most_common())
    _settle(found, written, {one.path: one.identity for one in candidates})
    return found


def _readings(candidates: Sequence[Candidate], asked: Asked, size: int) -> Iterator[tuple[Reading, list[Written]]]:
    """In this process where it is little, else in as many as there are processors, the largest files first."""
    workers = min(len(os.sched_getaffinity(0)), _MOST_WORKERS)
    if size < _ALONE_BYTES or workers < 2:
        for candidate in candidates:
            yield read_file(candidate, asked)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        for told in pool.map(_read_several, _bundles(candidates), [asked] * len(candidates)):
            yield from told


def _bundles(candidates: Sequence[Candidate]) -> list[list[Candidate]]:
    bundles: list[list[Candidate]] = []
    small: list[Candidate] = []
    for one in sorted(candidates, key=lambda one: -one.size):
        if one.size > _BIG_BYTES:
            bundles.append([one])
        else:
            small.append(one)
    return bundles + [small[at : at + _TOGETHER] for at in range(0, len(small), _TOGETHER)]


def _read_several(candidates: Iterable[Candidate], asked: Asked) -> list[tuple[Reading, list[Written]]]:
    return [read_file(one, asked) for one in candidates]


def _settle(found: Found, written: Sequence[Written], identities: dict[str, tuple[int, int]]) -> None:
    """Copies count once, commands and benchmarks find their starts, and what still runs is marked."""
    found.starts = list(_once(found))
    found.starts.sort(key=lambda start: (start.started_at or start.last_at, start.path, start.line))
    _mark_running(found, identities)
    commands.attach(found.starts, written)
    found.results = _runs_once(found)
    tie.tie(found.results, found.starts)
    found.runs.sort(key=lambda run: run.path)


def _runs_once(found: Found) -> list[Result]:
    """A run stands in a file, in copies of it, and rounded in what its tool has printed: what tells most counts."""
    kept: dict[tuple[str, ...], Result] = {}
    for result in sorted(found.results, key=lambda result: (-len(result.fact["metrics"]), result.path)):
        kept.setdefault(figures(result.fact["metrics"]) or (result.key,), result)
    copies = len(found.results) - len(kept)
    if copies:
        found.notes.append(f"Runs that stand in several files and count once: {copies}.")
    return sorted(kept.values(), key=lambda result: (result.ended_at, result.path))


def _once(found: Found) -> Iterator[Start]:
    """Of the copies of a log the one that tells most, under the path that comes first."""
    by_key: dict[str, list[Start]] = {}
    for start in found.starts:
        by_key.setdefault(start.key, []).append(start)
    for alike in by_key.values():
        alike.sort(key=lambda start: (-start.last_at.timestamp(), start.path))
        for other in alike[1:]:
            found.not_understood.append(Passed(other.path, f"shows the same start as {alike[0].path}, which counts"))
        yield alike[0]


def _mark_running(found: Found, identities: dict[str, tuple[int, int]]) -> None:
    """The last start of a log that a process still writes is alive: the daemon follows it by itself."""
    if not found.starts:
        return
    open_files = writers()
    last: dict[str, Start] = {}
    for start in found.starts:
        last[start.path] = start
    for path, start in last.items():
        pid = open_files.get(identities.get(path, (0, 0)))
        if pid is not None and start.state == "lost":
            start.running = pid
