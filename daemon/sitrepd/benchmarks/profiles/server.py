"""What SGLang says of its own steps: `/server_info` with SGLANG_RECORD_STEP_TIME=1, and the decode lines of its log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from sitrepd.benchmarks.profiles.found import Found, Phase, ProfileError

STEPS, START = "decode steps", "start"
_INTERVAL = 40
# The gap before the first decode after a pause is in a value too: SGLang's own script takes the 20th percentile for it.
_PAUSE = 3.0
_LINE = re.compile(r"\] Decode batch[^,]*, (?P<told>.*)")
_RUNNING = re.compile(r"#running-req: (\d+)")
_SPEED = re.compile(r"gen throughput \(token/s\): (\d+(?:\.\d+)?)")
_ACCEPTED = re.compile(r"accept len: (\d+(?:\.\d+)?)")
_TOLD_INTERVAL = re.compile(r"decode_log_interval['\"]?\s*[=:]\s*(\d+)")
_TIMINGS = re.compile(r"Engine startup timings \(s\): (.*)")
_TIMING = re.compile(r"(\w+)=(\d+(?:\.\d+)?)")


def read_server_info(told: Mapping[str, Any], name: str) -> Found:
    """Seconds of a decode step by how many requests ran, and of the phases of the start."""
    interval = told.get("decode_log_interval")
    every = interval if isinstance(interval, int) and interval > 0 else _INTERVAL
    by_running: dict[int, list[float]] = {}
    states = told.get("internal_states")
    for state in states if isinstance(states, list) else ():
        for running, values in _table(state, "step_time_dict").items():
            if str(running).isdigit():
                by_running.setdefault(int(running), []).extend(_seconds(values))
    steps, paused = _steps(by_running, every)
    start = list(_start(_table(told, "startup_time")))
    if not steps and not start:
        raise ProfileError(
            f"{name} has no step times: start the server with SGLANG_RECORD_STEP_TIME=1, send it requests, and read it "
            "again."
        )
    note = None if steps else "No step times: they are kept where SGLANG_RECORD_STEP_TIME=1."
    return Found("SGLang server_info", [*steps, *start], note or _paused(paused))


def _table(told: Any, name: str) -> Mapping[str, Any]:
    found = told.get(name) if isinstance(told, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _seconds(values: Any) -> Iterator[float]:
    for value in values if isinstance(values, list) else ():
        if isinstance(value, int | float) and 0 < value < float("inf"):
            yield float(value)


def _steps(by_running: Mapping[int, list[float]], every: int) -> tuple[list[Phase], int]:
    """A value is the mean of `every` steps; those that hold a pause of the server are left out and counted."""
    phases, paused = [], 0
    for running, values in sorted(by_running.items()):
        most = _PAUSE * median(values) if values else 0.0
        kept = [value for value in values if value <= most]
        paused += len(values) - len(kept)
        if kept:
            calls = len(kept) * every
            mean = 1e3 * sum(kept) / len(kept)
            phases.append(Phase(f"decode step, {running} running", STEPS, calls, mean * calls, mean))
    return phases, paused


def _paused(count: int) -> str | None:
    if not count:
        return None
    values = "value" if count == 1 else "values"
    return f"{count} {values} above {_PAUSE:g} times the median left out: the server had paused."


def _start(told: Mapping[str, Any]) -> Iterator[Phase]:
    for name, value in told.items():
        if isinstance(value, Mapping):
            yield from _start({f"{name} {of}": seconds for of, seconds in value.items()})
        elif isinstance(value, int | float) and 0 < value < float("inf"):
            yield Phase(name, START, 1, 1e3 * value, 1e3 * value)


def read_log(lines: Iterable[str]) -> Found:
    """Step times that follow from the decode lines: running × accepted ÷ tokens per second.

    Only of a line whose number of requests is that of the line before, since a line counts the tokens since then.
    """
    every, before = _INTERVAL, None
    by_running: dict[int, list[float]] = {}
    start: list[Phase] = []
    for line in lines:
        if "decode_log_interval" in line and (interval := _TOLD_INTERVAL.search(line)):
            every = int(interval[1]) or _INTERVAL
        elif (timings := _TIMINGS.search(line)) is not None:
            start = list(_start(_timings(timings[1])))
        elif "Decode batch" in line and (told := _LINE.search(line)) is not None:
            running, seconds = _step(told["told"])
            if running is not None and running == before and seconds is not None:
                by_running.setdefault(running, []).append(seconds)
            before = running
    steps, paused = _steps(by_running, every)
    said = "Step times follow from the throughput of decode lines, where the number of requests stayed the same."
    notes = [said if steps else None, _paused(paused)]
    return Found("SGLang log", [*steps, *start], " ".join(filter(None, notes)) or None)


def _step(told: str) -> tuple[int | None, float | None]:
    running, speed, accepted = _RUNNING.search(told), _SPEED.search(told), _ACCEPTED.search(told)
    if running is None or speed is None or float(speed[1]) <= 0 or int(running[1]) == 0:
        return None, None
    tokens = int(running[1]) * (float(accepted[1]) if accepted else 1.0)
    return int(running[1]), tokens / float(speed[1])


def _timings(told: str) -> dict[str, float]:
    graphs = re.sub(r"(\w+)=\{([^}]*)\}", lambda of: re.sub(r"(\w+)=", rf"{of[1]}_\1=", of[2]), told)
    return {name: float(value) for name, value in _TIMING.findall(graphs)}
