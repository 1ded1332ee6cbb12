"""The launch that the trials vary: kept without secrets, and made into the request of one trial."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlmodel import Session

from sitrepd import redact
from sitrepd.errors import InvalidFact, SitrepError, UnknownId
from sitrepd.launches import start
from sitrepd.launches.models import Launch, LaunchCreate
from sitrepd.launches.repeat import again
from sitrepd.launches.repeat import around as a
from sitrepd.launches.repeat.change import change_argv, change_line
from sitrepd.launches.repeat.words import Change
from sitrepd.storage import ids
from sitrepd.sweeps.asked import CallerIn, TemplateIn
from sitrepd.sweeps.grid import Settings, is_variable, text_of

Template = dict[str, Any]
"""`LaunchCreate` as JSON, secrets as references, and beside it `secrets`: the names of those in the command."""
_KEPT = ("umask", "limits", "nice", "affinity", "inherit_env")
_SELF = ("engine", "port", "ready_url", "ready_pattern", "log_path")


class MissingSecret(InvalidFact):
    """A secret of the template that nobody here knows."""


def body_of(db: Session, told: TemplateIn, caller: CallerIn) -> LaunchCreate:
    """The request that starts the template as it is, its secrets in it."""
    body = _told(told, caller) if told.launch is None else _repeated(db, told, caller)
    if told.set or told.unset:
        body = changed(body, {**told.set, **dict.fromkeys(told.unset)}, {})
    return body


def _told(told: TemplateIn, caller: CallerIn) -> LaunchCreate:
    shared = {name: getattr(caller, name) for name in _KEPT}
    shared |= {name: getattr(told, name) for name in _SELF}
    shared |= {"command": told.command, "argv": told.argv, "cwd": told.cwd or caller.cwd}
    shared |= {"env": {**(caller.env or {}), **told.env}, "told_env": sorted(told.env)}
    return LaunchCreate.model_validate({name: value for name, value in shared.items() if value is not None})


def _repeated(db: Session, told: TemplateIn, caller: CallerIn) -> LaunchCreate:
    parsed = ids.parse_id(told.launch or "")
    row = db.get(Launch, parsed[1]) if parsed and parsed[0] == "L" else None
    if row is None:
        raise UnknownId(f"template.launch: there is no launch {told.launch!r}; `sitrep launch list` lists them.")
    asked = again.CloneIn.model_validate({"env": told.env, "caller_env": caller.env, "log_path": told.log_path})
    body = again.again(row, asked).body
    more = {name: value for name in _SELF if name != "log_path" and (value := getattr(told, name)) is not None}
    return body.model_copy(update=more | ({"cwd": told.cwd} if told.cwd else {}))


def kept(body: LaunchCreate) -> Template:
    """What is stored of it."""
    around = a.around_of(body)
    told = body.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude={"env", "command", "argv"})
    told |= {name: around[name] for name in ("env", "secrets", "inherit_env", "told_env")}
    if body.command:
        told["command"] = redact.redact_command(body.command)
    else:
        told["argv"] = redact.redact_argv(body.argv or [])
    return told


def filled(template: Template, known: Mapping[str, str]) -> LaunchCreate:
    """The request again; raises MissingSecret where a secret of the command, or one that was told, is not known."""
    told = dict(template)
    secrets = set(told.pop("secrets", ()))
    env, missing = a.resolved(told.pop("env", {}), known)
    wanted = sorted((secrets - set(env) - set(known)) | (set(missing) & set(told.get("told_env") or ())))
    if wanted:
        raise MissingSecret(
            f"The trials are started with the secret {', '.join(wanted)}, which is not stored and is not in the "
            f"daemon's environment: set {wanted[0]} in a shell, and `sitrep sweep resume` there."
        )
    if told.get("command"):
        env |= {name: known[name] for name in secrets if name not in env}
    else:
        told["argv"] = a.filled(told["argv"], secrets, {**known, **env})
    return LaunchCreate.model_validate({**told, "env": env})


# --- a trial ---------------------------------------------------------------------------------------------------------


def trial_body(base: LaunchCreate, settings: Settings, mark: str, name: str | None = None) -> LaunchCreate:
    """The request of one trial; `mark`, such as `W2-3`, tells its log from those of the others."""
    body = changed(base, *_split(base, settings))
    log = _log(body, mark)
    if log is not None and body.log_path:
        body = body.model_copy(update={"log_path": log})
    elif log is not None:
        body = body.model_copy(update={"command": _line(body, Change(log_path=log))})
    return body.model_copy(update={"name": name})


def _split(base: LaunchCreate, settings: Settings) -> tuple[Settings, Settings]:
    """(flags and variables, placeholders)"""
    text = base.command or "\n".join(base.argv or ())
    placed = {name: value for name, value in settings.items() if _placeholder(name) in text}
    return {name: value for name, value in settings.items() if name not in placed}, placed


def _placeholder(name: str) -> str:
    return "{" + name.lstrip("-") + "}"


def changed(base: LaunchCreate, settings: Settings, placed: Settings) -> LaunchCreate:
    """The request with flags and variables set, or left out where their value is None, and placeholders filled."""
    for name, value in placed.items():
        if value is None:
            raise InvalidFact(f"{name} is absent in a trial, but the command has {_placeholder(name)}: make it a flag.")
    body = _placed(base, placed)
    variables = {name: value for name, value in settings.items() if is_variable(name)}
    flags = {name: value for name, value in settings.items() if name not in variables}
    change = Change(
        set={name: _words(value) for name, value in flags.items() if value is not None},
        drop=[name for name, value in flags.items() if value is None],
    )
    env = {name: text_of(value) for name, value in variables.items() if value is not None}
    gone = {name for name, value in variables.items() if value is None}
    body = _with_env(body, env, gone)
    if not change.of_flags:
        return body
    if body.command:
        return body.model_copy(update={"command": _line(body, change)})
    return body.model_copy(update={"argv": change_argv(body.argv or (), change)})


def _placed(body: LaunchCreate, placed: Settings) -> LaunchCreate:
    if not placed:
        return body
    if body.argv is not None:
        return body.model_copy(update={"argv": [_replaced(word, placed, text_of) for word in body.argv]})
    return body.model_copy(
        update={"command": _replaced(body.command or "", placed, lambda value: shlex.quote(text_of(value)))}
    )


def _replaced(text: str, placed: Settings, said: Any) -> str:
    names = {_placeholder(name): value for name, value in placed.items()}
    return re.sub("|".join(map(re.escape, names)), lambda match: said(names[match[0]]), text)


def _words(value: Any) -> tuple[str, ...]:
    if value is True:
        return ()
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _with_env(body: LaunchCreate, env: dict[str, str], gone: set[str]) -> LaunchCreate:
    """Variables that the line itself sets are changed there; a process is given the others."""
    if not env and not gone:
        return body
    around = {name: value for name, value in (body.env or {}).items() if name not in gone}
    told = sorted({*(body.told_env or ()), *env} - gone)
    if not body.command:
        return body.model_copy(update={"env": around | env, "told_env": told})
    inside = sorted(name for name in gone if re.search(rf"(?<!\w){name}=", body.command))
    if inside:
        raise InvalidFact(f"{inside[0]} is absent in a trial, but the command sets it: leave it out of the command.")
    command = _line(body, Change(env=env)) if env else body.command
    return body.model_copy(update={"command": command, "env": around, "told_env": sorted(set(told) - set(env))})


def _line(body: LaunchCreate, change: Change) -> str:
    seen = {**(a.own_environment() if body.inherit_env else {}), **(body.env or {})}
    return change_line(body.command or "", seen, body.cwd or "/", change)


def _log(body: LaunchCreate, mark: str) -> str | None:
    """A file of its own where the command or the request names one that the trials would share."""
    told = body.log_path
    if body.command:
        planned = start.plan(body.model_copy(update={"force": True})).shell
        if planned is not None and planned.tee_path:
            return None
        told = (planned.log_path or planned.stderr_path if planned else None) or told
        if planned is not None and planned.log_path == "/dev/null":
            return None
    if not told:
        return None
    path = Path(told)
    return str(path.with_name(f"{path.stem}.{mark}{path.suffix}"))


def check_startable(body: LaunchCreate) -> None:
    """Raises InvalidFact for what could not be started whatever the values are."""
    try:
        start.plan(body.model_copy(update={"force": True}))
    except SitrepError as error:
        raise InvalidFact(f"template: {error.detail}", **error.extra) from error
