"""From what was read to the diagnosis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sitrepd.launches.diagnosis.case import Case
from sitrepd.launches.diagnosis.incidents import Incident, is_of_engine, is_of_worker
from sitrepd.launches.diagnosis.judge import Found, explain, faintness, first_cause, of_health, of_requests, of_threads
from sitrepd.launches.diagnosis.model import MOST_EVIDENCE, Diagnosis, Evidence
from sitrepd.launches.diagnosis.prefixes import is_rank
from sitrepd.launches.diagnosis.rules import distributed, process
from sitrepd.launches.diagnosis.shards import missing_shards
from sitrepd.launches.diagnosis.silence import named, silent_ranks
from sitrepd.launches.engines.base import PHASE
from sitrepd.launches.launchers.base import Exit
from sitrepd.launches.suspicion import is_slow
from sitrepd.redact import redact_text

if TYPE_CHECKING:
    from sitrepd.launches.diagnosis.diagnose import Reading

_SEGFAULTS = (-11, -6, -7, 139, 134, 135)
_KILLS = (-9, 137)
_TERMS = (-15, 143, -2, 130)
_CHILD_FAILED = re.compile(r"sigquit from a child|SIGQUIT received|Failed core proc|[Ee]ngine core (?:init|proc)")
_OF_KERNELS = re.compile(r"/(?:site|dist)-packages/(?:flashinfer|sgl_kernel|flash_attn|deep_gemm|aiter|vllm|sglang)/")
"""The place in the code that an exception of a kernel names itself."""
_OF_THE_END = ("nccl_error", "unknown", "host_oom_killed", "segfault")
_NEAR_LINES = 60
_REFUSED = re.compile(r"HTTP/[\d.]+\" 4\d\d\b")
_LITERAL = re.compile(r"\"([^\"]*)\"")
_HANG_S = 300.0
_HARDWARE_MARK = "hardware_fault"


@dataclass(frozen=True)
class Beside:
    """What is known beside the log."""

    exit: Exit | None = None
    gpu_memory: Mapping[int, int] = field(default_factory=dict)
    kernel_messages: Sequence[str] = ()
    model_folder: Path | str | None = None
    usual_s: Mapping[str, float] = field(default_factory=dict)


def conclude(reading: Reading, beside: Beside) -> Diagnosis:
    """Hardware first, then the first cause in the log, then how the processes ended, then what is silent."""
    kernel = _of_kernel(reading, beside)
    if kernel is not None and kernel.category == _HARDWARE_MARK:
        return kernel
    found = reading.found()
    first = first_cause(found, reading.signs)
    gave_up = reading.signs.gave_up
    if gave_up is not None and _is_first(reading, gave_up[0], first):
        return _of_given_up(reading, gave_up)
    if first is not None and first.case is not None and first.case.rule.standing == "primary":
        killed = _of_codes(reading) if faintness(first) > 1 else None
        return killed or _of_case(reading, beside, first.case)
    return _of_ends(reading, beside, first, kernel) or _alive(reading, beside, found)


def _of_ends(reading: Reading, beside: Beside, first: Found | None, kernel: Diagnosis | None) -> Diagnosis | None:
    """Where no special cause is found: what follows, unexplained exceptions, exit codes, aftermath."""
    case = first.case if first else None
    if first is not None and case is not None and case.rule.standing == "follows":
        return kernel if kernel and case.rule.category == "host_oom_killed" else _of_case(reading, beside, case)
    if first is not None and case is None:
        whole = (
            _of_exception(reading, first.incident)
            if first.incident.causes
            else _of_cut(reading, beside, first.incident)
        )
        if whole is not None:
            return whole
    warned = _of_warning(reading, beside)
    if warned is not None:
        return warned
    ended = _of_codes(reading) or _of_exit(reading, beside)
    if ended is not None:
        return kernel if kernel and ended.category == "host_oom_killed" else ended
    if first is not None and case is not None:
        return _of_silence(reading, first, kernel) or _of_case(reading, beside, case)
    if first is not None or _is_dead(reading, beside):
        return _unknown(reading, first.incident if first else None)
    return None


# --- one case ----------------------------------------------------------------------------------------------------


def _of_case(reading: Reading, beside: Beside, case: Case) -> Diagnosis:
    category = case.render(case.rule.category)
    incident = case.incident
    summary, cause, fix = (case.render(text) for text in (case.rule.summary, case.rule.cause, case.rule.fix))
    if category in ("gpu_occupied", "memory_kv_pool", "port_in_use"):
        fix = _with_holders(fix, beside)
    return Diagnosis(
        "failed",
        _phase_of(reading, incident),
        category,
        _one_line(summary + _who(incident)),
        redact_text(cause),
        redact_text(fix),
        _evidence(reading, incident, case.line),
    )


def _with_holders(fix: str, beside: Beside) -> str:
    if not beside.gpu_memory:
        return fix
    told = ", ".join(f"{pid} ({size / 1024**3:.1f} GiB)" for pid, size in beside.gpu_memory.items())
    return f"{fix} On the GPUs now: {told}."


def _who(incident: Incident) -> str:
    return f" [{incident.key}]" if re.fullmatch(r"(?:[A-Z_]+\d+ ?)+|rank\d+", incident.key) else ""


def _phase_of(reading: Reading, incident: Incident) -> str | None:
    if incident.who == "warmup":
        return "warmup"
    if incident.phase in PHASE:
        return incident.phase
    return None if incident.was_ready else reading.progress.phase or None


def _evidence(reading: Reading, incident: Incident, line: int) -> tuple[Evidence, ...]:
    """Where it was announced, the line that matched, the exception, and the first line of the fall after it."""
    told: dict[int, str] = {}
    texts = dict(reversed(incident.texts))
    if line in texts:
        told[line] = texts[line]
    for number, text in incident.causes[:3]:
        told.setdefault(number, text)
    if not told and incident.texts:
        told.update(incident.texts[:1])
    for number, text in reading.signs.deaths:
        if number >= incident.number:
            told.setdefault(number, text)
            break
    return tuple(Evidence.of(number, redact_text(text)) for number, text in sorted(told.items()))[:MOST_EVIDENCE]


def _one_line(text: str) -> str:
    flat = " ".join(redact_text(text).split())
    return flat if len(flat) <= 300 else flat[:299] + "…"


# --- what no rule explains -----------------------------------------------------------------------------------------


def _of_exception(reading: Reading, incident: Incident) -> Diagnosis:
    """An exception of no known kind, in a worker or in the program itself."""
    number, cause = incident.cause
    cause = cause.rstrip("`") if cause.endswith("```") or cause.count("`") % 2 else cause
    in_worker = is_of_worker(incident) or _child_failed(reading, incident)
    where = next((frame for frame in reversed(incident.frames) if "site-packages/torch" not in frame), "")
    return Diagnosis(
        "failed",
        _phase_of(reading, incident),
        "scheduler_exception" if in_worker or is_of_engine(incident) or _OF_KERNELS.search(cause) else "unknown",
        _one_line(f"{'A worker' if in_worker else 'The server'} failed: {cause}{_who(incident)}"),
        _one_line(f"An exception that is none of the known kinds{f', at {where}' if where else ''}: {cause}"),
        "Look for this exception in the engine's issues; another release or fewer special flags often avoids it.",
        _evidence(reading, incident, number),
    )


def _child_failed(reading: Reading, incident: Incident) -> bool:
    """Whether the launcher tells soon afterwards that a child of it has failed."""
    return any(
        0 <= at - incident.last <= _NEAR_LINES and _CHILD_FAILED.search(text) for at, text in reading.signs.deaths
    )


def _of_cut(reading: Reading, beside: Beside, incident: Incident) -> Diagnosis | None:
    """A traceback that breaks off before its exception: who announced it may be enough, or the place in the code."""
    if incident.frames and "in resolve_trust_remote_code" in incident.frames[-1]:
        asked = Incident(incident.number, incident.key, "fatal", phase=incident.phase, kind="line", last=incident.last)
        asked.texts.append((incident.number, "requires trust_remote_code"))
        case = explain(asked, reading.known)
        return replace(_of_case(reading, beside, case), evidence=_last_place(incident)) if case else None
    raised = _raised(incident)
    if raised:
        says = Incident(incident.number, incident.key, "fatal", phase=incident.phase, kind="line", last=incident.last)
        says.frames, says.code = incident.frames, incident.code
        says.texts.append((incident.number, raised))
        case = explain(says, reading.known)
        if case is not None and case.rule.standing == "primary":
            return replace(_of_case(reading, beside, case), evidence=_last_place(incident))
    if incident.who != "warmup":
        return None
    words = Incident(incident.number, incident.key, "fatal", "warmup", incident.phase, kind="line", last=incident.last)
    words.texts.append((incident.number, "Initialization failed. warmup error: " + (incident.frames or [""])[-1]))
    case = explain(words, reading.known)
    return _of_case(reading, beside, case) if case else None


def _raised(incident: Incident) -> str:
    """What the statement says that raises, where the log breaks off before the exception itself."""
    begin = next((at for at in range(len(incident.code) - 1, -1, -1) if incident.code[at].startswith("raise ")), None)
    return "" if begin is None else "".join(_LITERAL.findall(" ".join(incident.code[begin:])))


def _last_place(incident: Incident) -> tuple[Evidence, ...]:
    """The last line of a traceback that breaks off."""
    return (Evidence.of(incident.last, redact_text((incident.code or incident.frames)[-1])),)


def _unknown(reading: Reading, incident: Incident | None) -> Diagnosis:
    number = incident.number if incident else (reading.signs.deaths[:1] or [reading.last])[0][0]
    told = [*(incident.texts[:2] if incident else ()), *reading.signs.deaths[:2]] or [reading.last]
    return Diagnosis(
        "failed",
        _phase_of(reading, incident) if incident else reading.progress.phase or None,
        "unknown",
        "The server failed, and the log does not say why",
        "The log ends or is cut before the first exception is named.",
        "Look at the beginning of the log and at the logs of the other ranks; start again with all output in one file.",
        tuple(Evidence.of(at, redact_text(text)) for at, text in told if at) or (Evidence(number, ""),),
    )


# --- how processes ended -------------------------------------------------------------------------------------------


def _of_codes(reading: Reading) -> Diagnosis | None:
    """The exit code of the first child that the log says has died, where it says more than that it failed."""
    ends = [at for at in (reading.signs.stop_at, reading.signs.fell_at) if at]
    for number, text, code in reading.signs.codes:
        if ends and number >= min(ends):
            break
        told = _of_code(reading, code, number, text)
        if told is not None:
            return told
    return None


def _of_exit(reading: Reading, beside: Beside) -> Diagnosis | None:
    """SGLang's launcher ends itself with SIGKILL after any crash: the signal counts only where nothing else is told."""
    ended = beside.exit
    if ended is None or not ended.known or reading.signs.stop_at or reading.signs.deaths:
        return None
    code = -ended.signal if ended.signal else ended.exit_code or 0
    return _of_code(reading, code, 0, f"exit status of the process: {code}") if code else None


def _of_code(reading: Reading, code: int, number: int, text: str) -> Diagnosis | None:
    phase = reading.progress.phase or None
    evidence = tuple(
        Evidence.of(at, redact_text(what))
        for at, what in dict([(number, text), reading.last]).items()
        if at or what == text
    )
    if code in _KILLS:
        summary = f"A process of the server was killed from outside (SIGKILL){process.which_child(text)}"
        return Diagnosis(
            "failed", phase, "host_oom_killed", summary, process.KILLED_CAUSE, process.KILLED_FIX, evidence
        )
    if code in _SEGFAULTS:
        name = {-11: "SIGSEGV", 139: "SIGSEGV", -6: "SIGABRT", 134: "SIGABRT"}.get(code, "SIGBUS")
        fix = (
            "PYTHONFAULTHANDLER=1 shows the Python line at the next crash; another --attention-backend; check that "
            "torch, sglang-kernel "
            "and flashinfer belong together (pip check)."
        )
        cause = f"The process died of {name} inside a compiled library, not of a Python exception."
        return Diagnosis(
            "failed", phase, "segfault", f"A process crashed in native code ({name})", cause, fix, evidence
        )
    return None


def _of_silence(reading: Reading, first: Found, kernel: Diagnosis | None) -> Diagnosis | None:
    """A rank that was killed: only its partners tell, by the connection that they have lost."""
    ranks = silent_ranks(reading, first)
    if not ranks or kernel is not None:
        return kernel if ranks else None
    who, incident = named(ranks), first.incident
    return Diagnosis(
        "failed",
        _phase_of(reading, incident),
        "host_oom_killed",
        f"A rank of the server was killed from outside (SIGKILL): {who} ended without a word{_by(incident)}",
        process.KILLED_CAUSE,
        process.KILLED_FIX,
        _evidence(reading, incident, incident.cause[0]),
    )


def _by(incident: Incident) -> str:
    return f", and {incident.key} lost its connection to it" if is_rank(incident.key) else ""


def _is_dead(reading: Reading, beside: Beside) -> bool:
    stop = reading.signs.stop_at
    if any(not stop or at < stop for at, _ in reading.signs.deaths):
        return True
    ended = beside.exit
    if ended is None or not ended.known or stop:
        return False
    code = -ended.signal if ended.signal else ended.exit_code
    return bool(code) and code not in _TERMS


def _of_warning(reading: Reading, beside: Beside) -> Diagnosis | None:
    """What was only warned of is the cause where the start has gone no further since."""
    if reading.warned is None or reading.warned.case is None or reading.signs.stop_at or reading.progress.is_ready:
        return None
    if reading.signs.goes_on_between(reading.warned.number, 1 << 62):
        return None
    told = _of_case(reading, beside, reading.warned.case)
    return told if _is_dead(reading, beside) else replace(told, state=reading.progress.state)


# --- nothing failed ------------------------------------------------------------------------------------------------


def _alive(reading: Reading, beside: Beside, found: list[Found]) -> Diagnosis:
    lived = _of_life(reading, beside, found)
    if lived is not None:
        return lived
    slow = _of_hang(reading) or _of_slowness(reading, beside)
    if slow is not None:
        return slow
    shards = _silent_shards(reading, beside)
    if shards is not None:
        return shards
    if _ended_without_a_word(reading):
        return _of_no_word(reading)
    state = reading.progress.state
    if reading.signs.stop_at or (beside.exit is not None and beside.exit.known):
        state = "exited"
    phase = reading.progress.phase if state not in ("ready", "exited") else None
    evidence = (Evidence.of(reading.last[0], redact_text(reading.last[1])),) if reading.last[0] else ()
    return Diagnosis(state, phase or None, None, _said_of(state, phase), evidence=evidence)


def _ended_without_a_word(reading: Reading) -> bool:
    """Python's tracker of shared memory outlives its processes, and speaks last where they were killed."""
    number, text = reading.last
    return bool(
        number
        and not reading.signs.stop_at
        and not reading.progress.is_ready
        and ("resource_tracker: " in text)
        and reading.progress.phase
    )


def _of_no_word(reading: Reading) -> Diagnosis:
    phase = reading.progress.phase
    title = PHASE[phase].title.lower() if phase in PHASE else "starting"
    return Diagnosis(
        "failed",
        phase or None,
        "host_oom_killed",
        f"The server was ended from outside without a word, while {title}",
        process.KILLED_CAUSE,
        process.KILLED_FIX,
        (Evidence.of(reading.last[0], redact_text(reading.last[1])),),
    )


def _of_life(reading: Reading, beside: Beside, found: list[Found]) -> Diagnosis | None:
    """What befell requests, or the server's own health checks, of a server that went on."""
    request, thrown = of_health(found) or of_requests(found), of_threads(found)
    bare = request is None or request.case is None or request.case.rule.standing == "secondary"
    if thrown is None and request is not None and reading.signs.stop_at and _is_refusal(request):
        return None
    if thrown is not None and bare:
        told = _of_request(reading, thrown.incident)
    elif request is not None and request.case is not None:
        told = _of_case(reading, beside, request.case)
    else:
        return None
    progress = reading.progress
    started = reading.starts == 0 or progress.is_ready or not progress.phase
    state = "exited" if reading.signs.stop_at else "ready" if started else progress.state
    return replace(told, state=state, phase=None if state != progress.state or state == "ready" else progress.phase)


def _is_refusal(one: Found) -> bool:
    """Whether a bare status says that a request was wrong: of a server that was asked to end this is the least."""
    return one.incident.kind == "line" and _REFUSED.search(one.incident.texts[0][1]) is not None


def _of_request(reading: Reading, incident: Incident) -> Diagnosis:
    number, cause = incident.cause
    return Diagnosis(
        "ready",
        None,
        "request_rejected",
        _one_line(f"A request failed inside the server, which lives on: {cause}"),
        _one_line(f"An exception while the request was taken in or answered: {cause}"),
        "Try the same request without its special options (tools, logprobs, grammars, images); the exception names the "
        "part of the server that could not handle it.",
        _evidence(reading, incident, number),
    )


def _said_of(state: str, phase: str | None) -> str:
    if state == "ready":
        return "Nothing failed: the server is ready."
    if state == "exited":
        return "Nothing failed: the server was asked to end and ended."
    title = PHASE[phase].title.lower() if phase else "starting"
    if phase == "dist_init":
        return (
            f"Nothing failed so far: {title}. If it stands here for minutes, NCCL may hang: NCCL_DEBUG=INFO, "
            f"NCCL_P2P_DISABLE=1."
        )
    return f"Nothing failed so far: {title}."


def _of_hang(reading: Reading) -> Diagnosis | None:
    """The ranks set up their connection for minutes, and whoever waited gave up or still waits."""
    minutes = round(reading.progress.stood_s / 60)
    if reading.progress.phase != "dist_init" or reading.progress.stood_s < _HANG_S:
        return None
    return Diagnosis(
        "failed" if reading.signs.stop_at else "starting",
        "dist_init",
        "nccl_hang",
        f"The ranks have not found each other: {minutes} min in the distributed init",
        "NCCL's set-up never returned: a rank is missing, or the transport between the GPUs or nodes hangs.",
        distributed.HANG,
        (Evidence.of(reading.last[0], redact_text(reading.last[1])),),
    )


def _is_first(reading: Reading, gave_up: int, first: Found | None) -> bool:
    """Whether the start stood still when the wait for it ended, and only the fall of its processes came after."""
    if reading.progress.is_ready or reading.signs.progress_at > gave_up:
        return False
    if first is None:
        return True
    return first.number > gave_up and (first.case is None or first.case.rule.category in _OF_THE_END)


def _of_given_up(reading: Reading, said: tuple[int, str]) -> Diagnosis:
    """Whoever waited for the server has ended its wait; where it stood then tells whether it hung."""
    phase = reading.progress.phase
    hung = phase == "dist_init"
    title = PHASE[phase].title.lower() if phase in PHASE else "starting"
    return Diagnosis(
        "failed",
        phase or None,
        "nccl_hang" if hung else "unknown",
        "The ranks have not found each other in the time that was allowed for the start"
        if hung
        else f"The server was not ready in the time that was allowed for its start: it stood at {title}",
        "NCCL's set-up never returned: a rank is missing, or the transport between the GPUs or nodes hangs."
        if hung
        else "Whoever started the server gave up; the log does not show that the server itself failed.",
        distributed.HANG if hung else "A longer time-out; py-spy dump --pid PID shows where it stands meanwhile.",
        (Evidence.of(said[0], redact_text(said[1])),),
    )


def _of_slowness(reading: Reading, beside: Beside) -> Diagnosis | None:
    """A phase that takes far longer than it did before is worth a word, and is no failure."""
    phase, elapsed_s = reading.progress.phase, reading.progress.elapsed_s
    usual_s = beside.usual_s.get(phase, 0.0)
    if reading.signs.stop_at or not is_slow(elapsed_s, usual_s):
        return None
    title = PHASE[phase].title if phase in PHASE else phase
    return Diagnosis(
        reading.progress.state,
        phase,
        "slow_load",
        f"{title} takes {elapsed_s:.0f} s, and took {usual_s:.0f} s before",
        "Nothing failed, but this phase is far slower than earlier: a cold page cache, a slower disk, a busy machine, "
        "or a hang.",
        "iostat -x 1 and free -g show disk and cache; py-spy dump --pid PID shows where it stands.",
        (Evidence.of(reading.last[0], redact_text(reading.last[1])),),
    )


def _silent_shards(reading: Reading, beside: Beside) -> Diagnosis | None:
    """Some releases load a model whose folder lacks shards without a word, and serve what was never initialised."""
    folder = beside.model_folder or reading.known.get("model_path")
    if not folder or not isinstance(folder, (str, Path)) or not Path(folder).is_dir():
        return None
    missing = missing_shards(folder)
    if not missing:
        return None
    names = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
    return Diagnosis(
        reading.progress.state,
        reading.progress.phase or None,
        "weights_missing",
        f"The folder of the model lacks shards that its index names: {names}",
        "The server goes on without them: some releases do not check, and serve weights that were never loaded.",
        f"Stop it; hf download REPO --local-dir {folder} (it resumes), then start again.",
        (Evidence(0, f"{folder}: missing {names}"),),
    )


def _of_kernel(reading: Reading, beside: Beside) -> Diagnosis | None:
    """Faults of the hardware and the OOM killer, as the kernel reported them."""
    for text in beside.kernel_messages:
        incident = Incident(0, "", weight="fatal", kind="line", phase=reading.progress.phase)
        incident.texts.append((0, text.strip()[:2000]))
        case = explain(incident, reading.known)
        if case is not None and case.render(case.rule.category) in (_HARDWARE_MARK, "host_oom_killed"):
            return _of_case(reading, beside, case)
    return None
