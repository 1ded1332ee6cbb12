"""A log read once from front to end, and what follows from it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from sitrepd.launches.diagnosis import source
from sitrepd.launches.diagnosis.beside import Beside
from sitrepd.launches.diagnosis.conclude import conclude
from sitrepd.launches.diagnosis.incidents import Collector, Incident
from sitrepd.launches.diagnosis.judge import Found, explain, is_warning, is_worth_a_look, lend_frames
from sitrepd.launches.diagnosis.known import Known, begins_run
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence
from sitrepd.launches.diagnosis.order import Chronological
from sitrepd.launches.diagnosis.prefixes import Line, is_rank, split
from sitrepd.launches.diagnosis.progress import Progress
from sitrepd.launches.diagnosis.signs import Signs, begins_anew
from sitrepd.launches.diagnosis.wording import in_words_of
from sitrepd.launches.diagnosis.wrapping import unwrapped
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.launches.launchers.base import Exit

_MOST_LINES = 400
_MOST_INCIDENTS = 400


def diagnose(
    log: Path | str | BinaryIO | Iterable[str],
    *,
    begin: int = 0,
    exit: Exit | None = None,
    gpu_memory: Mapping[int, int] | None = None,
    kernel_messages: Sequence[str] = (),
    facts: CommandFacts | None = None,
    model_folder: Path | str | None = None,
    usual_s: Mapping[str, float] | None = None,
) -> Diagnosis:
    """The diagnosis of a log: a path, a binary stream, or lines. Raises OSError where it cannot be read.

    `begin` is the byte of a file at which the launch began to write; `gpu_memory` are bytes of GPU memory by pid of
    processes that are not the launch's; `model_folder` is the model's path where that is a folder on this machine;
    `usual_s` is how long each phase took before.
    """
    reading = Reading(facts)
    if isinstance(log, (str, Path, io.IOBase)):
        with source.opened(cast("Path | str | BinaryIO", log), begin) as opened:
            lines = Chronological(opened)
            reading.read(iter(lines))
    else:
        lines = Chronological(source.from_lines(cast("Iterable[str]", log)))
        reading.read(iter(lines))
    told = conclude(reading, Beside(exit, gpu_memory or {}, kernel_messages, model_folder, usual_s or {}))
    evidence = tuple(Evidence(lines.written_at(one.line), one.text) for one in told.evidence)
    return replace(told, evidence=evidence, fix=in_words_of(reading.known, told.fix) if told.fix else told.fix)


class Reading:
    """What the lines have told."""

    def __init__(self, facts: CommandFacts | None = None) -> None:
        self.known = Known(facts)
        self._earlier: list[tuple[int, Known]] = []
        """What was known of runs before, each with the line at which the next began."""
        self.progress = Progress()
        self.signs = Signs()
        self.collector = Collector()
        self.single: list[Found] = []
        self.warned: Found | None = None
        self.last: tuple[int, str] = (0, "")
        self.lines = 0
        self.starts = 0
        self.ranks: set[str] = set()

    def read(self, lines: Iterator[source.Physical]) -> None:
        for number, raw, gap in unwrapped(lines):
            if gap:
                self.collector.interrupt()
            if raw:
                self._line(number, raw)

    def found(self) -> list[Found]:
        """All incidents, each with its explanation, in the order of the log."""
        self._count_ranks()
        told = [one for one in self.collector.incidents if one.texts or one.frames or one.weight == "fatal"]
        if len(told) > _MOST_INCIDENTS:
            told = told[: _MOST_INCIDENTS // 2] + told[-_MOST_INCIDENTS // 2 :]
        blocks = [Found(one, explain(one, self._known_at(one.number))) for one in told]
        lend_frames(blocks, self.known)
        return sorted([*blocks, *self.single], key=lambda one: one.number)

    def _known_at(self, number: int) -> Known:
        return next((known for until, known in self._earlier if number < until), self.known)

    def _count_ranks(self) -> None:
        """Where no line tells the tensor-parallel size, the ranks that write do."""
        told = [int(found[1]) for rank in self.ranks if (found := re.search(r"\bTP(\d+)", rank))]
        if told and self.known.get("tp_size") is None:
            self.known.settings["tp_size"] = max(told) + 1

    def _line(self, number: int, raw: str) -> None:
        line = split(raw)
        if begins_anew(line):
            self._start_again()
        self.progress.feed(line.record, line.key)
        if line.key and is_rank(line.key):
            self.ranks.add(line.key)
        before, self.last, self.lines = self.last, (number, line.text or raw), self.lines + 1
        if begins_run(line.text):
            self._earlier.append((number, self.known))
            self.known = self.known.of_next_run(line.text)
        self.known.learn(line.text)
        sign = self.signs.feed(number, line)
        if self.signs.first_avail_gib is not None:
            self.known.settings.setdefault("_first_avail_gib", self.signs.first_avail_gib)
        phase = self.progress.phase
        if self.collector.feed(number, line, phase, self.progress.is_ready):
            return
        if sign != "progress" and len(self.single) < _MOST_LINES and is_worth_a_look(line.text, line.level):
            self._single(number, line, phase, of_warning=number - before[0] == 1 and is_warning(before[1]))
        elif is_warning(line.text) and self.warned is None:
            self._warning(number, line, phase)

    def _warning(self, number: int, line: Line, phase: str) -> None:
        """Of warnings only those that CUDA cannot be had mean something by themselves."""
        incident = Incident(number, line.key, phase=phase, kind="line", is_record=True, last=number)
        incident.texts.append((number, line.text.strip()[:2000]))
        case = explain(incident, self.known) if "CUDA initialization" in line.text else None
        if case is not None and case.rule.category == "driver":
            self.warned = Found(incident, case)

    def _single(self, number: int, line: Line, phase: str, *, of_warning: bool) -> None:
        incident = Incident(number, line.key, phase=phase, was_ready=self.progress.is_ready, kind="line", last=number)
        waited = "[c10d]" in line.text and "timed out after" in line.text
        told = line.stamped and line.level not in ("ERROR", "CRITICAL", "FATAL")
        incident.is_record = of_warning or (told and not waited)
        incident.texts.append((number, line.text.strip()[:2000]))
        case = explain(incident, self.known)
        if case is not None:
            self.single.append(Found(incident, case))

    def _start_again(self) -> None:
        """An earlier server wrote to the same log: what it told is over once another one starts after its end."""
        self.starts += 1
        if self.starts > 1 and (
            self.signs.deaths or self.signs.ready_at or self.signs.stop_at or self.collector.incidents
        ):
            self.collector.forget()
            self.single, self.warned = [], None
            self.ranks = set()
            self.signs = Signs()
            self.progress.restart()
