"""Of all that went wrong, the first cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.incidents import Incident, is_of_worker
from sitrepd.launches.diagnosis.known import Known
from sitrepd.launches.diagnosis.rules import RULES
from sitrepd.launches.diagnosis.signs import GAVE_UP, Signs

_NEAR_DEATH_LINES = 400
_MIXED_LINES = 40
_STUCK = ("watchdog_timeout", "nccl_hang")
_EXIT = re.compile(
    r"[Cc]ode:? \(?-(?:6|9|7|11)\b|code 13[479]|Aborted|SIGABRT|core dumped|terminate called|[Ss]ignal:? [69]\b"
)
_OFTEN_HARMLESS = frozenset(
    {
        "missing_dependency", "jit_compile", "kernel_unsupported", "abi_mismatch", "quantization", "model_not_found",
        "driver",
        "remote_code", "draft_model", "context_length", "weights_missing", "bad_flag", "nccl_error", "triton_resources",
        "cuda_graph_capture", "unknown",
    }
)  # fmt: skip
"""What an engine that goes on without something says in a record of its own."""
_OF_THE_FALL = ("host_oom_killed", "segfault")
_TRIGGERS = re.compile(
    r"rror|ERROR|ail|atal|FATAL|xception|illed|已杀死|ssert|imed? ?out|imeout|out of|Xid|annot|ould not|ouldn't|nable"
    r"|[Nn]o module"
    r"|not found|No such file"
    r"|not supported|upported|ault|abort|Abort|orrupt|lready in use|rrno|core dumped|nvalid|nsufficient"
    r"|than the derived"
    r"|unbalanced|No space|Killed|run command|open file|could not select|SIG|signal|exit|code -|undefined|mismatch"
    r"|fallen|lost|llegal|missing|GPU|WARN"
    r"|refused|POST /"
    r"|Unknown|not compatible|is used by|oom-kill|MiB|Response \[|larger than|not enough|Not enough|No available"
    r"|lower your|exceed"
    r"|segfault|Not recommended|Extension modules|custom code|longer than|[a-z] denied|unknown (?:shorthand )?flag"
    r"|duplicate session|no server running"
    r"|requires|terminate called|double free|free\(\)|stale"
)
_IGNORED = re.compile(
    r"Ignore import error|server_args=|Warning: |UserWarning|FutureWarning|DeprecationWarning|is deprecated"
    r"|warnings\.warn"
    r"|ERROR_LEVEL|log_level|non-default args|engine \(v|args: Namespace|Ignore error|error_level|falling back"
    r"|Falling back|fallback"
    r"|(?i:retrying)|kill_process_tree called"
)
_CLIENT_FRAME = re.compile(
    r"/unittest/|/_?pytest/|/(?:sglang|vllm)/test/|bench_serving|/bench(?:mark)?s?/[^/\"]+\.py|/lm_eval/"
)
_SERVER_FRAME = re.compile(
    r"[/\\](?:sglang|vllm|torch|triton|flashinfer|sgl_kernel|transformers|uvicorn|uvloop|starlette|fastapi|ray|zmq"
    r"|multiprocessing|threading|asyncio)\b"
)
_QUIET = re.compile(r"\[\d+\] NCCL (?:INFO|TRACE)\b")
_SAYS_ERROR = re.compile(r"\b(?i:error|fatal)\b|[a-z]Error\b|NCCL WARN")
_PYTHON_WARNS = re.compile(r":\d+: [A-Z]\w*Warning: ")


@dataclass
class Found:
    """An incident with the rule that explains it best, None where none does."""

    incident: Incident
    case: Case | None

    @property
    def number(self) -> int:
        return self.incident.number


def explain(incident: Incident, known: Known, rules: Iterable[Rule] = RULES) -> Case | None:
    """The first rule of the table that matches anything that the incident says."""
    for rule in rules:
        if rule.on not in ("both", "block" if incident.kind == "traceback" else "line"):
            continue
        case = _apply(rule, incident, known)
        if case is not None:
            return case
    return None


def _apply(rule: Rule, incident: Incident, known: Known) -> Case | None:
    if rule.frames is not None and not any(rule.frames.search(frame) for frame in incident.frames):
        return None
    for number, text in _said(incident):
        found = rule.pattern.search(text)
        if found:
            case = Case(rule, incident, found, number, known)
            if rule.needs is None or rule.needs(case):
                return case
    return None


def _said(incident: Incident) -> Iterator[tuple[int, str]]:
    """The lines that name exceptions first, then the rest of their messages."""
    yield from incident.causes
    yield from (one for one in incident.texts if one not in incident.causes)
    if len(incident.texts) > 1:
        yield incident.texts[0][0], "\n".join(text for _, text in incident.texts)


def is_warning(text: str) -> bool:
    """Whether Python warns here; what the warning says may go on in the next line."""
    return "Warning: " in text and _PYTHON_WARNS.search(text) is not None


def is_worth_a_look(text: str, level: str) -> bool:
    """Whether a single line may say that something went wrong; what NCCL calls a warning is its word for an error."""
    if _QUIET.search(text) and "NCCL WARN" not in text:
        return False
    if level in ("INFO", "DEBUG", "WARNING") and "[c10d]" in text and "timed out after" in text:
        return True
    if len(text) > 4000 or (level in ("INFO", "DEBUG", "WARNING") and "NCCL WARN" not in text and '"POST ' not in text):
        return False
    return bool(_TRIGGERS.search(text)) and not _IGNORED.search(text)


def first_cause(found: list[Found], signs: Signs) -> Found | None:
    """What began it: a special cause, else what often only follows, else an unexplained exception, else aftermath."""
    counted = [one for one in found if _counts(one, signs)]
    first = _first_of(counted)
    if first is None or not faintness(first):
        return first
    firm = _first_of([one for one in counted if faintness(one) < faintness(first)])
    return firm if firm is not None and _outweighs(firm, first, signs) else first


def faintness(one: Found) -> int:
    """2 for a line of what an engine often goes on without, 1 where it is called an error, 0 for all else."""
    incident = one.incident
    if one.case is None or one.case.rule.weight == "fatal" or one.case.rule.category not in _OFTEN_HARMLESS:
        return 0
    if incident.kind == "traceback":
        return 1 if incident.weight == "weak" and (incident.is_record or not incident.frames) else 0
    return 1 if _SAYS_ERROR.search(incident.texts[0][1]) else 2


def _outweighs(firm: Found, faint: Found, signs: Signs) -> bool:
    """What ended a process, against an earlier line; one that is called an error must have been gone on after."""
    case = firm.case
    if firm.number < faint.number or (case is None and not firm.incident.causes):
        return False
    if case is not None and case.rule.standing == "secondary":
        return False
    if faintness(faint) > 1:
        return True
    went_on = firm.incident.phase != faint.incident.phase or signs.goes_on_between(faint.number, firm.number)
    if case is not None and case.rule.standing == "primary":
        return went_on or faint.incident.is_record
    return went_on and faint.incident.is_record


def _first_of(counted: list[Found]) -> Found | None:
    primary = _first(counted, "primary")
    if primary is not None:
        return _told_better(primary, counted)
    plain = _unexplained(counted)
    follows = _after_symptom(counted, _first(counted, "follows"))
    if follows is not None and plain is not None and _is_told_after_its_end(follows, plain):
        return plain
    lost = _first(counted, "secondary") if follows is not None and _is_abort(follows) else None
    if lost is not None and follows is not None and plain is None and _led_to(lost, follows):
        return lost
    if follows is not None and (plain is None or not plain.incident.causes or follows.number < plain.number):
        return follows
    return plain or _first(counted, "secondary")


def _told_better(first: Found, counted: Iterable[Found]) -> Found:
    """A library may print an error whose place in the code only the exception that follows tells."""
    if first.case is None or not _is_unsure(first.case):
        return first
    return next(
        (
            one
            for one in counted
            if one.case is not None
            and one.case.rule is first.case.rule
            and 0 < one.number - first.number <= _MIXED_LINES
            and not _is_unsure(one.case)
        ),
        first,
    )


def _is_unsure(case: Case) -> bool:
    return not case.is_placed or case.render(case.rule.category) == "unknown"


def lend_frames(found: list[Found], known: Known) -> None:
    """An exception whose traceback the log lacks has come the way of one whose exception it lacks."""
    cut = next((one.incident for one in found if one.incident.frames and not one.incident.causes), None)
    if cut is None:
        return
    for one in found:
        unsure = one.case is None or _is_unsure(one.case)
        if unsure and one.incident.kind == "traceback" and not one.incident.frames:
            one.incident.frames, one.incident.code = cut.frames, cut.code
            one.incident.who = one.incident.who or cut.who
            one.case = explain(one.incident, known)


def _first(found: Iterable[Found], standing: str) -> Found | None:
    return next((one for one in found if one.case is not None and one.case.rule.standing == standing), None)


def _after_symptom(found: Iterable[Found], first: Found | None) -> Found | None:
    """A failed health check is how a hang shows first, and an exit code may be told before what led to it."""
    if first is None or first.case is None:
        return first
    stuck: tuple[str, ...] = ()
    if first.case.rule.category == "health_check_failed":
        stuck = ("watchdog_timeout", "nccl_hang", "segfault")
    elif _is_of_exit(first):
        stuck = ("watchdog_timeout", "nccl_hang", "nccl_error") if "terminate" in first.case.found[0] else _STUCK
    near = _MIXED_LINES if first.case.rule.category == "host_oom_killed" else 1 << 62
    return next(
        (
            one
            for one in found
            if one.case is not None and one.case.rule.category in stuck and one.number - first.number <= near
        ),
        first,
    )


def _is_of_exit(one: Found) -> bool:
    """Whether it only tells how a process ended, and not why."""
    if one.case is None or one.case.rule.category not in _OF_THE_FALL:
        return False
    return one.incident.kind == "line" and bool(_EXIT.search(one.case.found.string))


def _is_abort(one: Found) -> bool:
    """Whether a process gave up by itself, as it does after an exception, and not of a fault of memory."""
    return (
        one.case is not None
        and one.case.rule.category == "segfault"
        and re.search(r"Aborted|SIGABRT|terminate called|-6\b|code 134", one.case.found[0]) is not None
    )


def _led_to(lost: Found, abort: Found) -> bool:
    """Whether an exception of a worker, which says that its connection is lost, stands shortly before."""
    incident = lost.incident
    fatal = incident.weight == "fatal" and bool(incident.causes)
    return fatal and 0 < abort.number - incident.number <= _MIXED_LINES


def _is_told_after_its_end(follows: Found, plain: Found) -> bool:
    """Output of several processes is mixed: the end of a worker may be told before its own exception."""
    return (
        _is_of_exit(follows)
        and plain.incident.weight == "fatal"
        and bool(plain.incident.causes)
        and 0 < plain.number - follows.number <= _MIXED_LINES
    )


def _unexplained(found: Iterable[Found]) -> Found | None:
    """An exception that no rule explains: rather one that is whole than one that the log breaks off."""
    plain = [one for one in found if one.case is None and one.incident.kind == "traceback"]
    whole = [one for one in plain if one.incident.causes]
    return next(iter(whole or plain), None)


def _counts(one: Found, signs: Signs) -> bool:
    """Fatal always; weak when the server did not go on afterwards, or died soon after."""
    incident = one.incident
    weight = one.case.rule.weight if one.case and incident.kind == "line" else incident.weight
    if one.case is not None and one.case.rule.alive:
        return False
    if incident.causes and incident.cause[1].startswith("KeyboardInterrupt"):
        return False
    if signs.stop_at and incident.number > signs.stop_at:
        return False
    if one.case is not None and one.case.rule.category in _OF_THE_FALL and 0 < signs.fell_at < incident.number:
        return False
    if _is_of_client(one):
        return False
    if weight == "fatal" or (one.case is not None and one.case.rule.weight == "fatal"):
        return True
    if weight == "mild" or (faintness(one) and incident.last < signs.ready_at):
        return False
    death = next((at for at, _ in signs.deaths if at >= incident.number), 0)
    if death and not 0 < signs.stop_at < death and death - incident.last <= _NEAR_DEATH_LINES:
        return True
    if incident.is_record and one.case is not None and one.case.rule.category in _OFTEN_HARMLESS:
        return False
    told = one.case is not None and one.case.rule.standing == "primary" and faintness(one) > 1
    if told and signs.record_at > incident.last:
        return False
    return not signs.goes_on_between(incident.last, 1 << 62)


def _is_of_client(one: Found) -> bool:
    """Whether a test or a benchmark that asks a server which was ready has failed, and not the server."""
    incident = one.incident
    if incident.causes and GAVE_UP.search(incident.cause[1]) and incident.weight != "fatal":
        return True
    if not incident.was_ready or incident.weight == "fatal" or not incident.frames or is_of_worker(incident):
        return False
    if one.case is not None and one.case.rule.standing != "secondary":
        return False
    return any(_CLIENT_FRAME.search(frame) for frame in incident.frames) or not any(
        _SERVER_FRAME.search(frame) for frame in incident.frames
    )


def of_requests(found: list[Found]) -> Found | None:
    """Something that befell a request while the server lived on: rather what says why than a bare status."""
    alive = [one for one in found if one.case is not None and one.case.rule.alive]
    told = [one for one in alive if one.case is not None and one.case.rule.standing == "primary"]
    return next(iter(told or alive), None)


def of_health(found: list[Found]) -> Found | None:
    """Failed health checks of a server that lived on, where there were several."""
    failed = [one for one in found if one.case is not None and one.case.rule.category == "health_check_failed"]
    return failed[0] if len(failed) > 1 else None


def of_threads(found: list[Found]) -> Found | None:
    """An exception of one request that no rule explains."""
    return next(
        (
            one
            for one in found
            if one.case is None
            and one.incident.causes
            and one.incident.weight == "mild"
            and one.incident.who == "request"
        ),
        None,
    )
