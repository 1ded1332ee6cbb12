"""The tracebacks of a log, taken together line by line, whoever writes between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from sitrepd.launches.diagnosis.prefixes import Line

Weight = Literal["fatal", "weak", "mild"]
"""fatal ends the server; weak does when nothing goes on after it; mild (a thread, a request) does not."""

TRACEBACK = "Traceback (most recent call last):"
FRAME = re.compile(r'\s*File "[^"]*", line \d+')
EXCEPTION = re.compile(
    r"(?:[A-Za-z_]\w*\.)*(?:(?:[A-Z]\w*)?(?:Error|Exception|Interrupt|Exit|Timeout|Failure|Failed)|OutOfResources|Empty"
    r"|StopIteration|(?<=\.)error)(?=:|$| \[|\(['\"])"
)
_DOTTED = re.compile(r"(?:[A-Za-z_]\w*\.)+[A-Z]\w*: ")
_WARNING = re.compile(r"(?:[\w.]+\.)?\w*Warning\b")
_ANNOUNCED = re.compile(
    r"(?P<who>[A-Za-z][\w ]{0,40}?(?:\(\w+\))?) hit an exception"
    r"|(?P<failed>EngineCore|WorkerProc|Worker\w*) (?:failed to start|encountered a fatal error)"
    r"|Initialization failed\. (?P<warmup>warmup) error|Error executing method|Exception in worker"
    r"|(?P<process>Process [\w.:-]+):\s*$|(?P<old>\w+[ _]init[ _]state|Exception in (?:Model\w+|Controller\w+)):"
)
_WORKER_WHO = re.compile(r"scheduler|engine|worker|detokenizer|tokenizer|controller|process|model", re.IGNORECASE)
_WORKER_KEY = re.compile(r"(?:[A-Z]{2}\d+ ?)+$|EngineCore|(?:Vllm|Ray)?Worker(?:_|Process|Proc|Wrapper| pid)")
_WORKER_FRAME = re.compile(
    r"run_scheduler_process|run_engine_core|worker_main|run_detokenizer|run_busy_loop|event_loop|run_engine_loop"
    r"|sglang/srt/(?:managers/(?:scheduler|tp_worker|detokenizer|data_parallel)|model_executor|models|layers"
    r"|speculative|mem_cache|distributed)"
    r"|vllm/(?:v1/)?(?:worker|executor|spec_decode|attention)/|vllm/v1/engine/core\.py|vllm/model_executor/(?:layers"
    r"|model_loader)|vllm/engine/(?:async_)?llm_engine|vllm/engine/multiprocessing/engine"
)
_ENGINE_FRAME = re.compile(r"[/\\](?:sglang|vllm|lmdeploy|text_generation_server|tensorrt_llm)[/\\]")
_BEFORE_WORKERS = re.compile(r"server_args\.py|arg_utils\.py|create_engine_config|in prepare_server_args")
_MILD = re.compile(
    r"Exception in (?:thread|callback|ASGI)|Task exception was never retrieved|Exception ignored in"
    r"|Error in (?:preprocessing|handling|chat|completion|request\b)|unhandled exception during asyncio"
    r"|Error occurred in generator"
)
_OF_WARMUP = re.compile(r", in (?:_wait_and_warmup|_execute_server_warmup)$")
"""A thread of SGLang's that is no side matter: without it the server never becomes ready."""
_FALL = re.compile(
    r"^\S.*core dumped|^\S*(?:.*: )?Segmentation fault|Segfault encountered|^Killed$|Caught signal|Fatal Python error"
    r"|^terminate called|^Extension modules: |SIGSEGV"
)
_CHAINED = ("The above exception was the direct cause", "During handling of the above exception")
_ANNOUNCING = ("xception", "ail", "Process ", "rror", "encountered a fatal", "init state", "init_state")
_RECORD_LEVELS = ("ERROR", "CRITICAL", "FATAL")
_MOST_TEXTS = 80
_MOST_FRAMES = 200
_MOST_AFTER = 40
_WIDTH = 2000


@dataclass
class Incident:
    """`texts` are the lines that say something, `frames` the places in the code, `code` what stands there."""

    number: int
    key: str
    weight: Weight = "weak"
    who: str = ""
    phase: str = ""
    was_ready: bool = False
    kind: Literal["traceback", "line"] = "traceback"
    is_record: bool = False
    texts: list[tuple[int, str]] = field(default_factory=list)
    frames: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    causes: list[tuple[int, str]] = field(default_factory=list)
    last: int = 0
    complete: bool = False
    blank: bool = False
    margin: int = 0
    """White space in front of the whole traceback, where something else has set it in."""
    after: int = 0

    @property
    def cause(self) -> tuple[int, str]:
        """The line that names the exception: of a chain the last, which the others led to."""
        return self.causes[-1] if self.causes else self.texts[-1] if self.texts else (self.number, "")

    def add(self, number: int, text: str) -> bool:
        """False when the text is no part of this traceback any more."""
        stripped = text.strip()
        self.last = number
        if not stripped.strip("^~ "):
            self.blank = self.complete
            return True
        if stripped.startswith((*_CHAINED, TRACEBACK)):
            self.complete = self.blank = False
            return True
        if FRAME.match(text):
            return not self.complete and self._frame(stripped, len(text) - len(text.lstrip()))
        if self.complete:
            return self._message(number, text, stripped)
        if not self._is_inside(text) and is_exception(stripped):
            self.complete, self.after = True, 0
            self.causes.append((number, stripped[:_WIDTH]))
            self._keep(number, stripped)
        elif self._is_inside(text) and len(self.code) < _MOST_FRAMES:
            self.code.append(stripped[:200])
        return True

    def _is_inside(self, text: str) -> bool:
        """Whether it is set in as code is, and not as the exception that stands as far left as the header."""
        return len(text) - len(text.lstrip()) > self.margin

    def _frame(self, text: str, indent: int) -> bool:
        if not self.frames:
            self.margin = max(0, indent - 2)
        if len(self.frames) < _MOST_FRAMES:
            self.frames.append(text)
        if self.weight == "mild" and _OF_WARMUP.search(text):
            self.who, self.weight = "warmup", "weak"
        return True

    def _message(self, number: int, text: str, stripped: str) -> bool:
        """The further lines of an exception's message; after a blank one only where its first line says nothing."""
        self.after += 1
        if self.after > _MOST_AFTER or (self.blank and not self.causes[-1][1].endswith(":")):
            return False
        if not self._is_inside(text) and is_exception(stripped) and not self.causes[-1][1].endswith(":"):
            self.causes.append((number, stripped[:_WIDTH]))
        self._keep(number, stripped)
        return True

    def _keep(self, number: int, text: str) -> None:
        if len(self.texts) < _MOST_TEXTS:
            self.texts.append((number, text[:_WIDTH]))


class Collector:
    """Fed with the lines in order; `incidents` are in the order of their begin."""

    def __init__(self) -> None:
        self.incidents: list[Incident] = []
        self._open: dict[str, Incident] = {}
        self._announced: dict[str, tuple[int, str, Weight]] = {}

    def feed(self, number: int, line: Line, phase: str, ready: bool) -> bool:
        """Whether the line belongs to a traceback."""
        if TRACEBACK in line.text:
            self._header(number, line, phase, ready)
            return True
        if line.stamped and line.level not in _RECORD_LEVELS:
            self._record_begins(line)
        elif self._goes_on(number, line):
            return True
        if FRAME.match(line.text):
            self._begin(number, line, phase, ready).add(number, line.text)
            return True
        return self._bare(number, line, phase, ready)

    def interrupt(self) -> None:
        """Lines were left out, so nothing that is open goes on."""
        self._open, self._announced = {}, {}

    def forget(self) -> None:
        """Another start begins in the same log."""
        self.incidents, self._open, self._announced = [], {}, {}

    def _record_begins(self, line: Line) -> None:
        """A record ends the tracebacks that have their exception; in others it is somebody else's interruption."""
        for key in {"", line.key}:
            block = self._open.get(key)
            if block is not None and block.complete:
                self._drop(block)

    def _goes_on(self, number: int, line: Line) -> bool:
        block = self._open.get(line.key)
        if block is None:
            return False
        if _FALL.search(line.text) and (not block.complete or line.text.startswith("Fatal Python error")):
            if block.complete:
                self._drop(block)
            return False
        if line.stamped and block.complete and announcement(line.text):
            self._drop(block)
            return False
        if block.add(number, line.text):
            return True
        self._drop(block)
        return False

    def _drop(self, block: Incident) -> None:
        for key in [key for key, held in self._open.items() if held is block]:
            del self._open[key]

    def _header(self, number: int, line: Line, phase: str, ready: bool) -> None:
        """A bare header inside a chain belongs to the open block; any other begins one."""
        before = line.text[: line.text.index(TRACEBACK)].strip()
        block = self._open.get(line.key)
        if block is not None and not before and not block.complete and (block.causes or not block.frames):
            block.add(number, TRACEBACK)
            return
        told = self._announcement_of(number, line.key)
        found = announcement(before) if before else told
        new = self._begin(number, line, phase, ready)
        if found:
            new.who, new.weight = found

    def _announcement_of(self, number: int, key: str) -> tuple[str, Weight] | None:
        told = self._announced.pop(key, None)
        return told[1:] if told and number - told[0] <= 3 else None

    def _begin(self, number: int, line: Line, phase: str, ready: bool) -> Incident:
        """SGLang stamps the first line of a traceback alone, so what follows without a stamp is its rest."""
        new = Incident(number, line.key, phase=phase, was_ready=ready, last=number)
        new.is_record = line.level == "WARNING"
        if line.stamped:
            self._open[""] = new
        self._open[line.key] = new
        self.incidents.append(new)
        return new

    def _bare(self, number: int, line: Line, phase: str, ready: bool) -> bool:
        """An exception without a traceback, as excerpts and some versions have it."""
        found = announcement(line.text)
        if found:
            self._announced[line.key] = (number, *found)
            rest = re.split(r"hit an exception:|warmup error:", line.text, maxsplit=1)
            if len(rest) == 1 or rest[1].strip() in ("", "%s"):
                return False
            text = rest[1].strip()
        elif is_exception(bare := line.text.removeprefix("\t")) and line.level not in ("INFO", "WARNING", "DEBUG"):
            # Code is set in with spaces: a tab is of the report that the log is quoted in.
            found = self._announcement_of(number, line.key)
            text = bare
        else:
            return False
        new = self._begin(number, line, phase, ready)
        if found:
            new.who, new.weight = found
        if not new.add(number, text) or not new.complete:
            new.complete = True
            new.causes.append((number, text[:_WIDTH]))
            new.texts.append((number, text[:_WIDTH]))
        return True


def is_exception(text: str) -> bool:
    """Whether the line names an exception, as the last line of a traceback does."""
    if not text[:1].isalpha() and text[:1] != "_":
        return False
    return bool(EXCEPTION.match(text) or _DOTTED.match(text)) and not _WARNING.match(text)


def is_of_worker(incident: Incident) -> bool:
    """Whether a process of the engine failed, and not the program that starts it."""
    if _WORKER_WHO.search(incident.who) or _WORKER_KEY.search(incident.key):
        return True
    frames = "\n".join(incident.frames)
    return bool(_WORKER_FRAME.search(frames)) and not _BEFORE_WORKERS.search(frames)


def is_of_engine(incident: Incident) -> bool:
    """Whether its exception came through code of an engine, whichever process that was."""
    return is_of_worker(incident) or any(_ENGINE_FRAME.search(frame) for frame in incident.frames)


def announcement(text: str) -> tuple[str, Weight] | None:
    """Who says that it failed, and how much that means."""
    if not any(word in text for word in _ANNOUNCING):
        return None
    if _MILD.search(text):
        return ("thread" if "thread" in text else "request"), "mild"
    found = _ANNOUNCED.search(text)
    if found is None:
        return None
    who = "warmup" if found["warmup"] else found["who"] or found["failed"] or found["process"] or "worker"
    return who.strip().lower(), "fatal"
