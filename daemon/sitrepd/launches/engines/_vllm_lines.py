"""The wording of vLLM's log: what is in front of a message, and the numbers inside single ones, without any memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sitrepd.launches.engines._lines import Bar
from sitrepd.launches.engines._settings import parse_server_args
from sitrepd.launches.engines.base import Throughput

_PROCESS = re.compile(r"\((?P<name>[A-Z][\w ]*?) pid=\d+\) ?")
_STAMP = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<day>\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) "
    r"\[?[\w./-]+:\d+\] ?"
)
_GLUED = re.compile(r"(?:\([A-Z][\w ]*? pid=\d+\) )?(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d ")
_LABEL = re.compile(r"(?:TP|PP|DP|EP)\d+")
_FIGURE = re.compile(r"([A-Z][\w -]*?): (-?[\d.]+)(%?)")
_ENGINE = re.compile(r"(?:Engine (?P<number>\d+): )?Avg prompt throughput: ")
_ANNOUNCED = (
    ("EngineCore failed to start", "engine"),
    ("EngineCore encountered a fatal error", "engine"),
    ("EngineCore hit an exception", "engine"),
    ("WorkerProc failed to start", "worker"),
    ("WorkerProc hit an exception", "worker"),
)
_CHANGED = re.compile(r"^Capping |[Ff]alling back to |is not supported.{0,80}(?:setting|using|disabling) ")


@dataclass(frozen=True, slots=True)
class Record:
    """`level` and `day` ("12-01 01:02:03") are "" for what no logger wrote; `rank` is "TP0" or ""."""

    level: str
    day: str
    rank: str
    message: str


def record(line: str) -> Record:
    """`(Worker_TP0 pid=1) INFO 12-01 01:02:03 [file.py:12] message`, each part of it optional."""
    rank, at = "", 0
    process = _PROCESS.match(line)
    if process is not None:
        at = process.end()
        rank = _rank(process["name"])
    stamp = _STAMP.match(line, at)
    if stamp is None:
        return Record("", "", rank, line[at:])
    return Record(stamp["level"], stamp["day"], rank, line[stamp.end() :])


def glued_record(text: str) -> int:
    """Where a record begins behind a bar that was not ended by a new line, 0 for nowhere."""
    found = _GLUED.search(text)
    return found.start() if found else 0


def _rank(process: str) -> str:
    """The first core of the engine is the launch itself, and so is the API server."""
    labels = _LABEL.findall(process.replace("_", " "))
    return "" if process.startswith("EngineCore") and labels in ([], ["DP0"]) else " ".join(labels)


def settings(text: str) -> dict[str, Any]:
    return parse_server_args(text)


def announces_failure(message: str) -> str:
    return next((where for text, where in _ANNOUNCED if message.startswith(text)), "")


def warning(message: str) -> str:
    return "setting_changed" if _CHANGED.search(message) else ""


def bar_phases(bar: Bar) -> tuple[tuple[str, ...], str]:
    """To which phases a bar may belong, and what it counts."""
    label = bar.label.lower()
    if "captur" in label:
        return ("capture_graphs",), "graphs"
    if "shard" in label or "safetensor" in label or "loading" in label:
        return ("load_draft_weights", "load_weights"), "shards"
    return (), ""


def figures(message: str, at: datetime) -> Throughput | None:
    """The periodic lines of throughput and of speculation, as the figures of one batch line."""
    engine = _ENGINE.match(message)
    if engine is None and not message.startswith("SpecDecoding metrics: "):
        return None
    number = engine["number"] if engine else None
    told = {
        name: round(float(value) / (100 if percent else 1), 6)
        for name, value, percent in _FIGURE.findall(_unnamed(message))
    }
    return Throughput(
        at=at,
        rank=f"DP{int(number)}" if number and int(number) else "",
        batch="decode",
        running=_whole(told.pop("Running", None)),
        queued=_whole(told.pop("Waiting", None)),
        token_usage=told.pop("GPU KV cache usage", None),
        gen_tok_s=told.pop("Avg generation throughput", None),
        input_tok_s=told.pop("Avg prompt throughput", None),
        accept_len=told.pop("Mean acceptance length", None),
        accept_rate=told.pop("Avg Draft acceptance rate", None),
        other=told,
    )


def _unnamed(message: str) -> str:
    """Without `Engine 000: ` or `SpecDecoding metrics: ` in front."""
    return message[message.find("Avg") :] if "Avg prompt" in message else message.partition(": ")[2]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
