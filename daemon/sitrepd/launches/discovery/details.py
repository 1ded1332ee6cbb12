"""What may be read of one found server: who runs it and how, where it prints, what it holds."""

from __future__ import annotations

import itertools
import os
import pwd
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from zoneinfo import ZoneInfo

from sitrepd.launches.discovery.begin import begin_of_start
from sitrepd.launches.discovery.containers import Container, container_of, log_files
from sitrepd.launches.discovery.find import Server
from sitrepd.launches.discovery.table import uid_of
from sitrepd.launches.discovery.words import Kind
from sitrepd.launches.engines import engine_for
from sitrepd.launches.engines.base import CommandFacts, Engine
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.outputs import OutputTarget, stdout_target
from sitrepd.launches.ports import ports_of
from sitrepd.launches.processes import read_cwd, read_environ, read_stat, started_at
from sitrepd.launches.start import MARK

_KEPT = (
    "NCCL_", "SGLANG_", "SGL_", "VLLM_", "CUDA_", "HF_", "HUGGING", "TORCH", "PYTORCH_", "TRITON_", "FLASHINFER_",
    "TRANSFORMERS_", "NVIDIA_", "NVTE_", "OMP_", "GLOO_", "UCX_", "NVSHMEM_", "DEEP", "LLAMA_", "GGML_", "TP_", "RAY_",
)  # fmt: skip
_KEPT_WHOLE = ("PYTHONPATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "TZ", "VIRTUAL_ENV", "CONDA_PREFIX", "PATH_TO_MODEL")
_DEFAULT_PORTS: dict[Kind, int] = {"sglang": 30000, "vllm": 8000, "llama.cpp": 8080}


@dataclass(frozen=True, slots=True)
class FoundLog:
    """`path` is its name, `readable` opens it from here; without them `problem` says why there is none."""

    path: str | None = None
    readable: str | None = None
    form: str | None = None
    problem: str | None = None
    begin: int = 0


@dataclass(frozen=True, slots=True)
class Details:
    """`readable` is false for a process that may be listed, but not looked into. Secrets are still in `env`."""

    readable: bool
    uid: int | None
    user: str | None
    started_at: datetime
    engine: Engine
    facts: CommandFacts
    cwd: str | None = None
    interpreter: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ports: tuple[int, ...] = ()
    log: FoundLog = FoundLog()
    container: Container | None = None

    @property
    def mark(self) -> str | None:
        """The folder of the launch that a daemon has started this for."""
        return self.env.get(MARK)

    @property
    def port(self) -> int | None:
        return self.facts.port


def look(server: Server) -> Details:
    """Read what may be read; takes a millisecond, more where a pipe's reader is looked for."""
    pid, argv = server.main.pid, server.main.argv
    uid = uid_of(pid)
    env = read_environ(pid)
    container = container_of(pid)
    ports = tuple(sorted(ports_of(pid)))
    engine, facts = describe(server.kind, argv, env or {}, ports)
    if container and not facts.timezone:
        facts = replace(facts, timezone="UTC")
    details = Details(
        readable=env is not None,
        uid=uid,
        user=user_of(uid),
        started_at=started_at(server.main.stat.start_ticks),
        engine=engine,
        facts=facts,
        cwd=read_cwd(pid),
        interpreter=_link(f"/proc/{pid}/exe"),
        env=env or {},
        ports=ports,
        container=container,
    )
    return replace(details, log=_log(server, details))


def kept_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that matter to a server; secrets are still in it."""
    return {name: value for name, value in sorted(env.items()) if name in _KEPT_WHOLE or name.upper().startswith(_KEPT)}


def describe(
    kind: Kind, argv: Sequence[str], env: Mapping[str, str], ports: Sequence[int] = ()
) -> tuple[Engine, CommandFacts]:
    """The engine and what the words say; a port that they do not say is the one it listens on, else the kind's own."""
    engine = engine_for(argv)
    facts = engine.describe(argv, env)
    if engine.name != GenericEngine.name:
        return engine, facts
    port = facts.port or (ports[0] if len(ports) == 1 else _DEFAULT_PORTS[kind])
    facts = replace(facts, port=port, host=facts.host, model_path=facts.model_path or _model(argv))
    return engine_for(argv, ready_url(facts)), facts


def ready_url(facts: CommandFacts) -> str:
    """What vLLM and llama.cpp answer with 200 once they serve; it costs them nothing."""
    host = {None: "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(facts.host, facts.host)
    return f"http://{host}:{facts.port}/health"


def _model(argv: Sequence[str]) -> str | None:
    """`vllm serve MODEL`, `llama-server -m MODEL`."""
    for before, word in itertools.pairwise(argv):
        if before in ("serve", "-m", "--model") and not word.startswith("-") and not word.startswith("vllm."):
            return word
    return None


def user_of(uid: int | None) -> str | None:
    if uid is None:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


# --- the log -----------------------------------------------------------------------------------------------------


def _log(server: Server, details: Details) -> FoundLog:
    found = _with_begin(_file_of(server, details), details)
    if found.readable and not os.access(found.readable, os.R_OK):
        return replace(found, readable=None, problem=f"The log {found.path} may not be read by this user.")
    return found


def _with_begin(found: FoundLog, details: Details) -> FoundLog:
    if found.readable is None:
        return found
    try:
        begin = begin_of_start(found.readable, details.started_at, zone(details.facts.timezone), found.form)
    except OSError:
        return found
    return replace(found, begin=begin)


def zone(name: str) -> tzinfo | None:
    """The zone of that name; None is the machine's own."""
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None


def _file_of(server: Server, details: Details) -> FoundLog:
    pid = server.main.pid
    # vLLM logs to standard output, the others to standard error.
    targets = [stdout_target(pid, number) for number in ((1, 2) if server.kind == "vllm" else (2, 1))]
    files = [target for target in targets if target.path]
    if files:
        return FoundLog(files[0].path, files[0].readable_path)
    # Of another pid namespace alone (unshare, a sandbox) no engine is known that would keep anything.
    if details.container and details.container.id:
        return _container_log(details)
    return FoundLog(problem=_why_not(pid, targets))


def _container_log(details: Details) -> FoundLog:
    assert details.container
    files = log_files(details.container, details.uid)
    for path, form in files:
        if os.access(path, os.R_OK):
            return FoundLog(str(path), str(path), form)
    where = f"; {files[0][0]} may not be read" if files else ""
    return FoundLog(problem=f"It prints into {details.container.name}, whose engine keeps its log{where}.")


def _why_not(pid: int, targets: Iterable[OutputTarget]) -> str:
    kinds = {target.kind: target for target in targets}
    followed = "only its port, its processes and its HTTP answers can be followed"
    if "terminal" in kinds:
        return f"Its output goes to a terminal: {followed}. Start it with > FILE 2>&1 to have its log."
    if "pipe" in kinds or "socket" in kinds:
        what = "a pipe" if "pipe" in kinds else "a socket"
        return f"Its output goes to {what}, which only {_reader(pid)} can see: {followed}."
    if "unreadable" in kinds:
        return f"Another user's: where its output goes may not be seen; {followed}."
    return f"Its output is thrown away: {followed}."


def _reader(pid: int) -> str:
    stat = read_stat(pid)
    parent = read_stat(stat.parent) if stat else None
    return f"its reader (perhaps {parent.name}, pid {parent.pid})" if parent and parent.pid > 1 else "its reader"
