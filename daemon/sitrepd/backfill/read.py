"""One file: what it is by its first lines, and what it tells."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from sitrepd.backfill import results, server_log, text, training
from sitrepd.backfill.commands import SCRIPT, Written, is_script, written_commands
from sitrepd.backfill.files import Candidate
from sitrepd.backfill.found import Passed, Reading
from sitrepd.redact import redact_text

_SGLANG = re.compile(
    rb"server_args=(?:ServerArgs\(|\{)|Load weight begin\.|Init torch distributed begin|Init parallel begin"
    rb"|The server is fired up and ready|launch_server(?:\.py)?: error:|Scheduler hit an exception"
    rb"|kill_process_tree called"
    rb"|\] (?:Prefill|Decode) batch[.,]|sglang\.launch_server|Load weight end\.|Memory pool end\."
    rb"|\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?: DP\d+)?(?: PP\d+)? TP\d+|\bmax_total_num_tokens=\d+, "
)
_VLLM = re.compile(
    rb"vLLM API server version|\((?:APIServer|EngineCore\w*|Worker\w*)[^()\n]{0,40} pid=\d+\)|non-default args: "
    rb"|Initializing an? (?:V1 )?LLM engine|Starting vLLM API server|vllm(?: serve)?: error:|api_server\.py: error:"
    rb"|vllm serve |vllm\.entrypoints|Avg prompt throughput: "
)
_WEAK = re.compile(rb"/sglang/srt/|/vllm/(?:v1|engine|entrypoints|executor|worker)/")
_PRINTED = re.compile(
    rb"server_args=|Load weight begin|fired up and ready|\(most recent call last\)|(?m:^usage: )|: error: "
    rb"|(?m:^(?:\[20\d\d-\d\d-\d\d \d\d:|(?:\([A-Z][^)\n]*\) )?(?:INFO|WARNING|ERROR) \d\d-\d\d ))"
)
_CLIENT = re.compile(rb"=+ (?:Offline )?(?:Serving )?Benchmark Result =+")
_LOG_NAME = re.compile(
    r"\.(?:log|out|err|jsonl|ndjson|txt)(?:[.\d-]*)(?:\.(?:gz|bz2|xz))?$|^nohup|^slurm|(?:^|[-_.])logs?(?:$|[-_.\d])",
    re.IGNORECASE,
)
_MOST_JSON_BYTES = 64 << 20
_NO_START = "belongs to a server, but shows no start of one (it was rotated, or its beginning is missing)"
_UNKNOWN = "text without a line of a server, a benchmark or a training run that is known"


@dataclass(frozen=True)
class Asked:
    """What the caller says of all files: the folders, and the zone of their times, the machine's own if absent."""

    folders: tuple[str, ...]
    zone: str | None = None


def read_file(candidate: Candidate, asked: Asked) -> tuple[Reading, list[Written]]:
    """What a file tells; nothing that is in it makes this raise."""
    path = candidate.path
    try:
        return _read(candidate, asked)
    except text.UNREADABLE as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Reading(path, passed=[Passed(path, f"cannot be read: {redact_text(why)}")]), []
    except Exception as error:  # one odd file must not take the others with it
        why = redact_text(f"{type(error).__name__}: {error}"[:200])
        return Reading(path, passed=[Passed(path, f"could not be taken apart ({why})")]), []


def _read(candidate: Candidate, asked: Asked) -> tuple[Reading, list[Written]]:
    path = candidate.path
    head = text.head(path)
    reading = Reading(path)
    if not head.strip():
        if _LOG_NAME.search(_name(path)):
            reading.passed.append(Passed(path, "is empty"))
        return reading, []
    if text.is_binary(head):
        if _LOG_NAME.search(_name(path)):
            reading.passed.append(Passed(path, "is no text"))
        return reading, []
    mtime = datetime.fromtimestamp(candidate.mtime, UTC)
    written: list[Written] = []
    if candidate.size == len(head) and SCRIPT.search(_name(path)) and is_script(head):
        written = written_commands(path, head.decode("utf-8", "replace"), candidate.mtime, asked.folders)
    if is_script(head) and not _is_server(head):
        return reading, written
    return _told(path, head, mtime, candidate, asked), written


def _is_server(head: bytes) -> bool:
    """Whether it is a log, and no script or note that names the command of one."""
    return _PRINTED.search(head) is not None


def _told(path: str, head: bytes, mtime: datetime, candidate: Candidate, asked: Asked) -> Reading:
    begin = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if begin[:1] in b"{[" and begin[:2] not in (b"{'", b"[2") and (reading := _json(path, begin, mtime, candidate)):
        return reading
    zone = ZoneInfo(asked.zone) if asked.zone else None
    engine = _engine(head) or _engine(_tail(path, candidate.size))
    trains = training.looks_like(head)
    if engine and not (trains and not _STRONG[engine].search(head)):
        reading = Reading(path, starts=server_log.read_server_log(path, engine, mtime, zone))
        if not reading.starts and not trains:
            reading.passed.append(Passed(path, _NO_START))
        if reading.starts or not trains:
            return reading
    if trains or training.looks_like(_tail(path, candidate.size)):
        return training.read_training(path, mtime, zone)
    reading = Reading(path)
    if _CLIENT.search(head) or _CLIENT.search(_tail(path, candidate.size)):
        return results.read_result_file(path, mtime)
    if _LOG_NAME.search(_name(path)):
        reading.passed.append(Passed(path, _UNKNOWN))
    return reading


_STRONG = {"sglang": _SGLANG, "vllm": _VLLM}


def _engine(data: bytes) -> str | None:
    """By the words that only it prints; a bare traceback is of the engine whose code it went through."""
    sglang, vllm = (pattern.search(data) for pattern in (_SGLANG, _VLLM))
    if sglang or vllm:
        return "sglang" if sglang and (not vllm or sglang.start() <= vllm.start()) else "vllm"
    weak = _WEAK.search(data) if b"Traceback" in data or b"rror:" in data else None
    return None if weak is None else "sglang" if b"sglang" in weak[0] else "vllm"


def _tail(path: str, size: int) -> bytes:
    """The last bytes of a file that is not compressed and longer than its head."""
    if size <= text.HEAD_BYTES:
        return b""
    with open(path, "rb") as file:
        if file.read(2) == b"\x1f\x8b":
            return b""
        file.seek(max(size - text.HEAD_BYTES, 0))
        return file.read(text.HEAD_BYTES)


def _json(path: str, begin: bytes, mtime: datetime, candidate: Candidate) -> Reading | None:
    """None where it is a log in JSON lines, or no JSON at all."""
    line = begin.split(b"\n", 1)[0]
    document = _loads(line) if begin[:1] == b"{" else None
    if document is None and begin[:1] == b"{" and b'"server_info"' in line:
        return results.read_result_file(path, mtime)  # a first line that is longer than the head, or cut
    several = document is not None
    if document is None:
        document = _whole(path, candidate)
    if isinstance(document, list):
        document = next((item for item in document if isinstance(item, Mapping)), None)
    if not isinstance(document, Mapping) or ("log" in document and "stream" in document):
        return None
    return _document(path, document, mtime, several)


def _document(path: str, document: Mapping[str, Any], mtime: datetime, several: bool) -> Reading | None:
    if results.is_result(document) and ("backend" in document or results.is_vllm(document)):
        return results.read_result_file(path, mtime)
    if isinstance(document.get("log_history"), list) or training.is_point(document):
        return training.read_records(path, mtime)
    reading = Reading(path)
    tool = results.other_tool(document)
    if tool or results.is_result(document):
        reading.passed.append(Passed(path, f"{tool or 'a result of another tool'}, which is not read"))
    elif several and _LOG_NAME.search(_name(path)) and not _message_of(document):
        keys = ", ".join(str(key) for key in list(document)[:5]) or "nothing"
        reading.passed.append(Passed(path, redact_text(f"JSON objects with {keys}: no result, and no training run")))
    elif several and _message_of(document):
        return None
    return reading


def _message_of(document: Mapping[str, Any]) -> bool:
    return any(isinstance(document.get(name), str) for name in ("message", "msg", "MESSAGE", "log"))


def _loads(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _whole(path: str, candidate: Candidate) -> Any:
    if candidate.size > _MOST_JSON_BYTES:
        return None
    with text.opened(path) as file:
        return _loads(file.read(_MOST_JSON_BYTES))


def _name(path: str) -> str:
    return path.rpartition("/")[2]
