"""How processes die without an exception of Python."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Rule
from sitrepd.launches.diagnosis.rules._make import rule

KILLED_FIX = (
    "dmesg -T | grep -i 'killed process' shows whether the kernel's OOM killer did it (and journalctl -k, or the "
    "container's memory limit); "
    "if so: more memory or swap, a larger memory limit, --weight-loader-disable-mmap, fewer ranks loading at once."
)
KILLED_CAUSE = (
    "SIGKILL came from outside the program: it left no exception of its own. The kernel's OOM killer is "
    "the usual sender."
)

_CHILD = re.compile(r"Subprocess (?P<name>\w+) \(pid=\d+\)|Rank (?P<rank>\d+) scheduler")


def which_child(text: str) -> str:
    """`: scheduler_1`, where the launcher says which of its processes it was."""
    found = _CHILD.search(text)
    return f": {found['name'] or 'the scheduler of rank ' + found['rank']}" if found else ""


_ANNOUNCES = re.compile(
    r"(?:[Ss]end(?:ing)?|[Ss]ent|with) SIGKILL|handlers?\b.{0,40}SIG|(?:regist|install)\w* .{0,40}SIG"
)
"""A signal that is to be sent, or is prepared for."""

_FOLLOWS = re.compile(r"[Cc]ancelled|[Bb]roken ?[Pp]ipe|[Cc]onnection|[Tt]imed out|is dead|EOF")
"""What a worker says that has only lost the others."""

RULES: tuple[Rule, ...] = (
    rule(
        "host_oom_killed",
        r"Out of memory: Killed process (?P<pid>\d+)|oom[-_]kill(?::constraint|ed|er)?\b|OOM Killed"
        r"|Memory cgroup out of memory|OOMKilled|killed due to the node running low on memory"
        r"|by the OOM killer|killed due to memory pressure|oom_reaper: reaped",
        "The OOM killer ended a process of the server",
        "The host (or the container's limit) ran out of memory, and the kernel killed the process.",
        "More host memory or swap, a larger container limit; fewer ranks loading at once; "
        "--weight-loader-disable-mmap.",
        weight="fatal",
    ),
    rule(
        "host_oom_killed",
        r"^Killed$|^已杀死|\bKilled +(?:python|nohup|sglang|vllm|/\S*python)|code=killed, status=9/KILL"
        r"|died with <Signals\.SIGKILL|signal: 9"
        r"|[Ss]ignal 9\b|(?<!killed by )SIGKILL\)?[ .]|[Ee]xit code:? -9|exited with code 137|code -9\b",
        lambda case: f"A process of the server was killed from outside{which_child(case.found.string)}",
        KILLED_CAUSE,
        KILLED_FIX,
        on="line",
        weight="fatal",
        standing="follows",
        needs=lambda case: not _ANNOUNCES.search(case.found.string),
    ),
    rule(
        "segfault",
        r"Fatal Python error: (?P<what>Segmentation fault|Bus error|Aborted|Floating point exception"
        r"|Illegal instruction)|[Ss]egmentation fault|SIGSEGV|SIGBUS|SIGABRT"
        r"|\]: segfault at [\da-f]+ ip|Segfault encountered|Caught signal (?:6|7|11)\b"
        r"|^Extension modules: .*\(total: \d+\)"
        r"|code=(?:killed|dumped), status=(?:6/ABRT|7/BUS|11/SEGV)"
        r"|Aborted \(core dumped\)|double free or corruption|free\(\): invalid|malloc(?:_consolidate)?\(\): "
        r"|corrupted (?:size|double-linked)|terminate called|\*\*\* stack smashing"
        r"|[Ee]xit code:? -(?:11|6|7)\b|code -(?:11|6|7)\b|exited with code 13[49]",
        "A process crashed in native code",
        "The process died of a signal inside a compiled library, not of a Python exception.",
        "Read the 'Current thread' of the dump for the last Python line; try another --attention-backend or "
        "{flag_no_graph}, and check that "
        "torch, sglang-kernel and flashinfer belong together (pip check).",
        weight="fatal",
        standing="follows",
        needs=lambda case: not _ANNOUNCES.search(case.found.string),
    ),
)

ORPHANS: tuple[Rule, ...] = (
    rule(
        "orphan_processes",
        r"(?P<pid>\d{2,8})\b[^\n]{0,60}\b(?:sglang::\w+|VLLM::\w+)\S*\s+(?P<size>\d{3,6}) ?MiB"
        r"|leav(?:es?|ing) orphan|[Oo]rphan(?:ed)? (?:\w+ ){0,2}(?:process|worker|scheduler|rank)|reparented to (?:PID"
        r"|pid) 1",
        "Processes of an earlier launch still hold GPU memory",
        "Schedulers outlive a launcher that is killed, and keep their GPU memory and ports.",
        "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv; end those whose parent is 1 (ps -o "
        "pid,ppid,cmd): kill {pid}.",
        on="line",
        standing="follows",
    ),
)

SECONDARY: tuple[Rule, ...] = (
    rule(
        "scheduler_exception",
        r"Worker failed with error '(?P<what>[^'\n]{8,}(?:'[^',\n]+)*)', please check",
        "A worker failed: {what}",
        "An exception of a worker that is none of the known kinds: {what}",
        "Look for this message in the engine's issues, and at the traceback of the worker above it.",
        standing="follows",
        needs=lambda case: _FOLLOWS.search(case.word("what")) is None,
    ),
    rule(
        "unknown",
        r"could finish the model loading, but there are other ranks|RPC call to \w+ timed out|EngineDeadError"
        r"|Engine core (?:initialization|proc)|See root cause above|scheduler died|is dead"
        r"|initialization failed\. See|Engine process failed|SystemExit|ConnectionResetError|ConnectionRefusedError"
        r"|Broken ?[Pp]ipe|CancelledError|KeyboardInterrupt"
        r"|Process group watchdog thread terminated|HeartbeatMonitor|destroy_process_group|leaked semaphore|EOFError"
        r"|zmq\.error|AsyncEngineDead|RuntimeError: Worker failed|WorkerProc initialization failed"
        r"|disable CUDA graph by --disable-cuda-graph\. \(Not recommended",
        "The server failed, and the log does not say why",
        "Only what fell over later is in the log; the first exception is not.",
        "Look at the beginning of the log and at the logs of other ranks and nodes; start again with the output of "
        "all ranks in one file.",
        standing="secondary",
    ),
    rule(
        "unknown",
        r"^TimeoutError",
        "The engine waited in vain for a worker",
        "A worker did not answer in time: it hangs, compiles, or has died; the log does not say which.",
        "py-spy dump --pid of each worker while it hangs; NCCL_P2P_DISABLE=1 rules the transport between the GPUs out.",
        frames=r"shm_broadcast|multiproc_executor",
        standing="secondary",
    ),
)
