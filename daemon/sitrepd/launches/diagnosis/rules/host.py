"""What the host refuses to a process: descriptors, threads, memory, disk, files that it may not touch."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules import division
from sitrepd.launches.diagnosis.rules._make import rule

_FILE = r"(?:: ['\"](?P<file>[^'\"\n]+)['\"])?"
_ASKED = re.compile(r"tried to allocate (\d+) bytes")
_NO_REASON = re.compile(r"/dev/shm|/psm_|/torch_\d|shared memory|nccl-")


def _where(case: Case) -> str:
    return case.word("file") or "the path that the message names"


def _asked(case: Case) -> str:
    found = _ASKED.search(case.text)
    return f" ({int(found[1]) / 1024**3:.2f} GiB more were asked for)" if found else ""


RULES: tuple[Rule, ...] = (
    rule(
        "weights_corrupt",
        r"(?:PermissionError|Permission denied)[^\n]*?['\"](?P<file>[^'\"\n]+\.(?:safetensors|bin|pt|gguf)"
        r"|[^'\"\n]*model\.safetensors\.index\.json)['\"]",
        "A file of the weights may not be read by this user: {file}",
        "The file is there, and its permissions (or those of a folder above it) keep the server's user from "
        "reading it.",
        "namei -l {file} shows which one; sudo chmod -R a+rX on the model's folder, or start as the user who owns it.",
    ),
    rule(
        "unknown",
        r"attempting to bind on address \('(?P<host>[^']*)', (?P<port>\d+)[^)]*\): [Pp]ermission denied",
        "This user may not listen on port {port}",
        "Ports below 1024 want root, or the capability CAP_NET_BIND_SERVICE.",
        "Take a --port above 1023, with a proxy before it where clients want {port}; or sudo sysctl "
        "net.ipv4.ip_unprivileged_port_start={port}.",
        weight="fatal",
    ),
    rule(
        "unknown",
        r"attempting to bind on address \('(?P<host>[^']*)', (?P<port>\d+)[^)]*\): "
        r"(?:\[Errno 99\] )?[Cc]annot assign requested address",
        "This machine has no address {host}",
        "The server was to listen at an address that belongs to no network interface here.",
        "--host 0.0.0.0 for all networks, or --host 127.0.0.1; ip -brief address lists the addresses of this machine.",
        weight="fatal",
    ),
    rule(
        division.category,
        r"(?:PermissionError: |\[Errno 13\] )[^\n:]*" + _FILE,
        lambda case: f"The server may not use {_where(case)} (permission denied)",
        "The user that the server runs as lacks the right to read, write or bind what the message names.",
        lambda case: (
            "A port below 1024 wants root or CAP_NET_BIND_SERVICE: take a higher --port."
            if re.search(r"\bbind|address \(", case.text + case.frames)
            else f"namei -l {_where(case)} shows whose it is; chown or chmod it, start as its owner, or name a folder "
            "of this user's (HF_HOME, TRITON_CACHE_DIR, TMPDIR)."
        ),
        needs=lambda case: "docker" not in case.text,
    ),
    rule(
        division.category,
        r"(?:\[Errno 30\][^\n:]*|Read-only file system)" + _FILE,
        lambda case: f"The server cannot write to {_where(case)}: the file system is read-only",
        "A cache or a temporary file was to be written, and its folder is mounted for reading only.",
        "HF_HOME, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR, FLASHINFER_WORKSPACE_BASE and TMPDIR name folders "
        "that may be "
        "written; docker run -v for the cache; mount -o remount,rw where a disk fell back to reading only after "
        "errors.",
    ),
    rule(
        division.category,
        r"\[Errno (?:28|122)\][^\n:]*" + _FILE + r"|No space left on device|Disk quota exceeded",
        "The disk is full, or the quota on it is used up",
        lambda case: f"Writing failed: {case.incident.cause[1][:200]}",
        "df -h and df -i (quota -s) show which disk; free room there, or move caches: HF_HOME, "
        "TRITON_CACHE_DIR, TMPDIR on "
        "another one.",
        on="block",
        needs=lambda case: _NO_REASON.search(case.text) is None,
    ),
    rule(
        division.category,
        r"Too many open files|\[Errno 24\]",
        "The process has as many files open as it may",
        "The limit of open descriptors (files, sockets, pipes of the ranks) was reached.",
        "ulimit -n shows it; ulimit -n 65536 before the start (docker run --ulimit nofile=65536:65536; systemd: "
        "LimitNOFILE=65536).",
        needs=lambda case: case.incident.kind == "traceback" or case.incident.weight == "fatal",
    ),
    rule(
        division.category,
        r"can't start new thread|pthread_create (?:failed|error)|[Tt]hread creation failed|unable to fork|fork: retry"
        r"|(?:BlockingIOError|OSError): \[Errno 11\] Resource temporarily unavailable",
        "No further thread or process could be started",
        "A limit was reached: processes of the user, pids of the container or unit, or address space for one "
        "more stack.",
        "ulimit -u and ulimit -v show two of them, pids.max of the cgroup the third; raise it (docker run "
        "--pids-limit -1; "
        "systemd: TasksMax=infinity), or fewer threads: OMP_NUM_THREADS=8.",
    ),
    rule(
        division.category,
        r"DefaultCPUAllocator: (?:can't|not enough memory)|\[Errno 12\]|^MemoryError|std::bad_alloc"
        r"|Unable to allocate [\d.]+ [KMGT]iB for an array",
        lambda case: f"The host refused more memory to the process{_asked(case)}",
        "Not the GPU's memory: the machine's own, or what ulimit -v, the container or overcommit leaves of it, "
        "was used up.",
        "free -g, ulimit -v and the memory limit of the container show which; more of it, fewer ranks loading "
        "at once, or "
        "less in host memory (--cpu-offload-gb, --hicache-size, --hicache-ratio lower).",
        on="block",
    ),
)
