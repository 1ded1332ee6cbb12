"""From what a caller asks to a request for the launcher, and to the row that remembers it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sitrepd import redact
from sitrepd.errors import Conflict, InvalidFact
from sitrepd.launches.check.configuration import matters
from sitrepd.launches.command import ShellCommand, check_executable, parse_command
from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.engines.base import CommandFacts, Engine
from sitrepd.launches.follow import end_of
from sitrepd.launches.launchers.base import Launched, LaunchLog, LaunchRequest, ProcessIdentity
from sitrepd.launches.models import LaunchCreate
from sitrepd.launches.ports import who_listens
from sitrepd.launches.repeat.around import REQUEST_NAME as REQUEST_NAME
from sitrepd.launches.repeat.around import around_of
from sitrepd.reporting import AROUND

MARK = "SITREP_LAUNCH"
"""In the environment of what is started: the folder of its launch, by which what is left of it is known."""
_ENV_NAME = re.compile(r"[^=\0]+")
_TOLD_ONLY = ("state", "phases", "ready_at", "ended_at", "exit_code")


@dataclass(frozen=True)
class Plan:
    """A checked launch: nothing of it has happened yet."""

    body: LaunchCreate
    env: Mapping[str, str]
    cwd: Path
    engine: Engine
    facts: CommandFacts
    shell: ShellCommand | None

    def request(self, state_dir: Path) -> LaunchRequest:
        body = self.body
        told = body.log_path if body.log_path and (self.shell is None or not self.shell.log_path) else None
        return LaunchRequest(
            state_dir=state_dir,
            log_path=Path(told).expanduser() if told else state_dir / "output.log",
            cwd=self.cwd,
            env={**self.env, MARK: str(state_dir)},
            command=body.command,
            argv=None if body.command else body.argv,
            append=told is not None,
            umask=body.umask,
            limits={name: (pair[0], pair[1]) for name, pair in (body.limits or {}).items()},
            nice=body.nice,
            affinity=body.affinity,
        )

    def columns(self, request: LaunchRequest) -> dict[str, Any]:
        """What the row keeps of the request; secrets are references. To be asked before the start."""
        body, facts = self.body, self.facts
        position = end_of(request.cwd / self._log(request)) if self._appends(request) else None
        command = redact.redact_command(body.command) if body.command else None
        argv = redact.redact_argv(body.argv) if body.argv and not body.command else None
        return {
            "name": body.name,
            "engine": self.engine.name,
            "command": command,
            "argv": argv,
            "env": redact.redact_env(_told_env(body)) or None,
            "cwd": str(self.cwd),
            "port": body.port or facts.port,
            "model": body.model or facts.model_path,
            "draft_model": body.draft_model or facts.draft_model_path,
            "ready_url": body.ready_url,
            "ready_pattern": body.ready_pattern,
            "log_position": position.to_json() if position else None,
            "process": {AROUND: self._around()},
            **({"from_launch": body.from_launch} if body.from_launch else {}),
        }

    def _around(self) -> dict[str, str]:
        """What matters of the caller's surroundings, and neither was told nor stands in the command."""
        assigned = self.shell.environment if self.shell else {}
        kept = matters(self.env)
        for name in (*_told_env(self.body), *assigned):
            kept.pop(name, None)
        return redact.redact_env(dict(sorted(kept.items())))

    def _log(self, request: LaunchRequest) -> Path:
        told = (self.shell.stderr_path or self.shell.log_path) if self.shell else None
        return Path(told) if told else request.log_path

    def _appends(self, request: LaunchRequest) -> bool:
        if self.shell and self.shell.stderr_path:
            return self.shell.stderr_append
        return self.shell.append if self.shell and self.shell.log_path else request.append


def plan(body: LaunchCreate) -> Plan:
    """Check a request; raises a SitrepError that says what would be right, before anything is started."""
    for name in _TOLD_ONLY:
        if getattr(body, name):
            raise InvalidFact(f"{name} is observed, not told, of a launch that is started; start=false records one.")
    if (body.command is None) == (body.argv is None):
        raise InvalidFact("Give the command as one shell line in `command`, or as words in `argv`; one of them.")
    _check_words(body)
    env = {**(os.environ if body.inherit_env else {}), **(body.env or {})}
    cwd = Path(body.cwd or Path.home()).expanduser()
    if not cwd.is_absolute() or not cwd.is_dir():
        raise InvalidFact(f"cwd: {cwd} is no folder on this host; give an absolute path that exists.")
    _check_limits(body)
    _check_ready(body)
    shell = _shell(body, env, cwd)
    argv = list(shell.argv) if shell else list(body.argv or ())
    if shell is None:
        _check_program(argv, env, cwd)
    environment = {**env, **{name: value for name, value in (shell.environment if shell else {}).items() if value}}
    engine = _engine(body, argv)
    facts = engine.describe(argv, environment)
    facts = replace(facts, port=body.port) if body.port else facts
    _check_port(body, facts)
    return Plan(body, env, cwd, engine, facts, shell)


def _shell(body: LaunchCreate, env: Mapping[str, str], cwd: Path) -> ShellCommand | None:
    if body.command is None:
        return None
    command = parse_command(body.command, env, str(cwd))
    check_executable(command)
    return command


def _check_program(argv: list[str], env: Mapping[str, str], cwd: Path) -> None:
    if not argv or not argv[0]:
        raise InvalidFact("argv is empty: its first word is the program.")
    search = env.get("PATH", os.defpath)
    found = shutil.which(cwd / argv[0]) if os.sep in argv[0] else shutil.which(argv[0], path=search)
    if found is None:
        where = "" if os.sep in argv[0] else f" PATH searched: {search}."
        raise InvalidFact(f"No such program: {argv[0]}.{where}")


def _engine(body: LaunchCreate, argv: list[str]) -> Engine:
    for name, pattern in (("ready_pattern", body.ready_pattern),):
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise InvalidFact(f"{name}: {pattern!r} is no regular expression ({error}).") from error
    if body.engine is None:
        return engine_for(argv, body.ready_url, body.ready_pattern)
    try:
        return engine_named(body.engine, body.ready_url, body.ready_pattern)
    except KeyError as error:
        raise InvalidFact(f"engine: {body.engine!r} is not known; use sglang, vllm or generic, or none.") from error


def _check_words(body: LaunchCreate) -> None:
    """What the kernel cannot pass on to a process."""
    for name, value in (body.env or {}).items():
        if not _ENV_NAME.fullmatch(name):
            raise InvalidFact(f"env: {name!r} is no name of a variable: it is empty, or has = or a NUL in it.")
        if "\0" in value:
            raise InvalidFact(f"env.{name}: a value cannot have a NUL in it.")
    for place, word in enumerate(body.argv or ()):
        if "\0" in word:
            raise InvalidFact(f"argv.{place}: a word cannot have a NUL in it.")


def _check_ready(body: LaunchCreate) -> None:
    if body.ready_url is not None and not re.match(r"https?://[^/]", body.ready_url):
        raise InvalidFact(f"ready_url: {body.ready_url!r} is none; http://127.0.0.1:8000/health is one.")


def _check_limits(body: LaunchCreate) -> None:
    bad = [name for name, pair in (body.limits or {}).items() if len(pair) != 2]
    if bad:
        raise InvalidFact(f"limits.{bad[0]}: two numbers are wanted, [soft, hard]; -1 is unlimited.")


def _check_port(body: LaunchCreate, facts: CommandFacts) -> None:
    port = body.port or facts.port
    holders = who_listens(port, facts.host) if port else []
    if holders and not body.force:
        holder = holders[0]
        words = redact.redact_argv(list(holder.argv or ()))
        who = f"pid {holder.pid} ({' '.join(words)[:160]})" if holder.pid else "a process of another user"
        raise Conflict(f"Port {port} is taken by {who}. Stop it, choose another port, or use --force.", port=port)


def _told_env(body: LaunchCreate) -> dict[str, str]:
    """What was set for this launch, its caller's surroundings left out."""
    env = body.env or {}
    if body.told_env is not None:
        return {name: env[name] for name in body.told_env if name in env}
    return env if body.inherit_env else {}


def remember(
    columns: Mapping[str, Any], state_dir: Path, session_id: int | None, provenance: str, body: LaunchCreate
) -> None:
    """Write beside the process what is to be stored of it, in case the daemon dies before it can, and what it needs
    to be started again."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = {"columns": columns, "session_id": session_id, "provenance": provenance, "around": around_of(body)}
    (state_dir / REQUEST_NAME).write_text(json.dumps(told))


def process_columns(launched: Launched) -> dict[str, Any]:
    """How a later daemon finds the process again."""
    return {
        "pid": launched.identity.pid,
        "identity": asdict(launched.identity),
        "supervisor": asdict(launched.supervisor) if launched.supervisor else None,
        "started_at": launched.started_at.isoformat(),
        "state_dir": str(launched.state_dir) if launched.state_dir else None,
        "shell": launched.shell,
        "logs": [{"path": str(log.path), "kind": log.kind, "append": log.append} for log in launched.logs],
    }


def launched_from(process: Mapping[str, Any], started_at: Any) -> Launched:
    """The inverse of `process_columns`."""
    supervisor = process.get("supervisor")
    return Launched(
        identity=ProcessIdentity(**process["identity"]),
        started_at=started_at,
        logs=tuple(LaunchLog(Path(log["path"]), log["kind"], log["append"]) for log in process.get("logs", ())),
        supervisor=ProcessIdentity(**supervisor) if supervisor else None,
        state_dir=Path(process["state_dir"]) if process.get("state_dir") else None,
        shell=bool(process.get("shell")),
    )
