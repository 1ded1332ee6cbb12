"""What differs between two launches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from sitrepd.launches.repeat.around import needed
from sitrepd.launches.repeat.asked import SETTING
from sitrepd.launches.repeat.sides import Side
from sitrepd.redact import is_secret_name

# Differ between any two starts without meaning anything.
_NOISE_SETTINGS = {"random_seed", "launch_command", "nccl_port"}
_NOISE_ENV = re.compile(
    r"_|PWD|OLDPWD|SHLVL|TERM.*|COLORTERM|LINES|COLUMNS|SSH_.*|XDG_.*|DBUS_.*|TMUX.*|STY|WINDOW.*|PS\d|PROMPT.*|LS_COLORS"
    r"|SITREP_.*|PYTEST_.*|INVOCATION_ID|JOURNAL_STREAM|VSCODE_.*|CLAUDE.*|OPENCODE.*|CODEX.*|HISTFILE"
)
_FINE_S = 0.05


class Difference(BaseModel):
    """One thing that is not the same; absent where one of the two has none."""

    name: str
    a: Any = None
    b: Any = None


class Comparison(BaseModel):
    """Launch `a` against launch `b`; nothing differs in what is empty, unless `unknown` says that it is not known."""

    a: str
    b: str
    command: list[Difference] = Field(default_factory=list, description="Program, folder, engine, model, host.")
    flags: list[Difference] = Field(default_factory=list, description="As asked for on the command line.")
    environment: list[Difference] = Field(default_factory=list)
    stack: list[Difference] = Field(default_factory=list, description="Packages, Python, CUDA, driver, working trees.")
    settings: list[Difference] = Field(default_factory=list, description="As the engine resolved them.")
    sizes: list[Difference] = Field(default_factory=list)
    phases: list[Difference] = Field(default_factory=list, description="Durations in seconds.")
    outcome: list[Difference] = Field(default_factory=list)
    unknown: list[str] = Field(default_factory=list)


def compare(a: Side, b: Side) -> Comparison:
    """Everything that is known of both."""
    return Comparison(
        a=a.id,
        b=b.id,
        command=list(_differences(_identity(a), _identity(b))),
        flags=list(_differences(_flags(a), _flags(b))),
        environment=list(_environment(a, b)),
        stack=list(_stacks(a.stack, b.stack)),
        settings=list(_settings(a, b)),
        sizes=list(_differences(_sizes(a), _sizes(b))),
        phases=list(_phases(a, b)),
        outcome=list(_differences(_outcome(a), _outcome(b))),
        unknown=[*_unknown(a), *_unknown(b)],
    )


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*a, *b]):
        if a.get(name) != b.get(name):
            yield Difference(name=name, a=a.get(name), b=b.get(name))


def _identity(side: Side) -> dict[str, Any]:
    row = side.row
    told = {
        "name": row.name,
        "engine": row.engine,
        "program": " ".join(_program(side.argv)) or None,
        "cwd": row.cwd,
        "host": getattr(side.host, "name", None),
        "model": row.model,
        "draft_model": row.draft_model,
    }
    return {name: value for name, value in told.items() if value is not None}


def _program(argv: Sequence[str]) -> list[str]:
    """The words before the first long flag."""
    until = next((place for place, word in enumerate(argv) if word.startswith("--")), len(argv))
    return list(argv[:until])


def _flags(side: Side) -> dict[str, Any]:
    flags = side.facts.flags.items()
    return {SETTING.get(name, name): value for name, value in flags if not is_secret_name(name)}


def _environment(a: Side, b: Side) -> Iterator[Difference]:
    """The surroundings count only where they are known of both."""
    # Where a secret of the command came from, when it was run again.
    secrets = needed(a.row, a.around) | needed(b.row, b.around)
    if (a.around is None) == (b.around is None):
        one, other = a.environment, b.environment
    else:
        one, other = ({**(side.row.env or {}), **side.assigned} for side in (a, b))
    for difference in _differences(one, other):
        if difference.name in secrets and difference.name not in a.assigned | b.assigned:
            continue
        if not _NOISE_ENV.fullmatch(difference.name):
            yield difference


def _stacks(a: Any, b: Any) -> Iterator[Difference]:
    if a is None or b is None:
        return
    yield from _differences(a.packages or {}, b.packages or {})
    for name in ("python", "cuda", "driver", "os"):
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            yield Difference(name=name, a=one, b=other)
    yield from _differences(_trees(a), _trees(b))


def _trees(stack: Any) -> dict[str, Any]:
    """What was checked out, by path: commit, and a mark of what it has beyond it."""
    beyond = {one["path"]: one for one in stack.diffs or ()}
    return {
        f"git {tree['path']}": _tree(tree, beyond.get(tree["path"])) for tree in stack.git or () if tree.get("path")
    }


def _tree(tree: Mapping[str, Any], beyond: Mapping[str, Any] | None) -> str:
    said = str(tree.get("commit") or "no commit")[:12]
    if beyond and beyond.get("sha256"):
        return f"{said} with changes {beyond['sha256'][:12]}"
    return f"{said} with changes" if tree.get("dirty") else said


def _settings(a: Side, b: Side) -> Iterator[Difference]:
    if not a.settings or not b.settings:
        return
    for difference in _differences(dict(flat(a.settings)), dict(flat(b.settings))):
        if difference.name not in _NOISE_SETTINGS:
            yield difference


def flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Nested records with their names joined by a dot."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _sizes(side: Side) -> dict[str, Any]:
    """The smallest of all ranks, which is what limits."""
    found: dict[str, Any] = {}
    for one in side.sizes:
        name = f"{one['role']} {one['name']}".strip()
        found[name] = min(one["value"], found.get(name, one["value"]))
    return found


def durations(side: Side) -> dict[str, float]:
    """Seconds by phase, and `ready` for the whole start; phases that are not over are left out."""
    found = {}
    for one in side.phases:
        seconds = one.get("elapsed_s")
        if seconds is None and one.get("started_at") and one.get("ended_at"):
            seconds = (one["ended_at"] - one["started_at"]).total_seconds()
        if seconds is not None:
            found[one["name"]] = round(float(seconds), 1)
    row = side.row
    if row.ready_at is not None:
        found["ready"] = round((row.ready_at - (row.started_at or row.at)).total_seconds(), 1)
    return found


def _phases(a: Side, b: Side) -> Iterator[Difference]:
    for difference in _differences(durations(a), durations(b)):
        if difference.a is None or difference.b is None or abs(difference.a - difference.b) > _FINE_S:
            yield difference


def _outcome(side: Side) -> dict[str, Any]:
    row = side.row
    told = {"state": row.state, "failure": row.failure, "exit_code": row.exit_code, "exit_signal": row.exit_signal}
    return {name: value for name, value in told.items() if value is not None}


def _unknown(side: Side) -> Iterator[str]:
    if not side.argv:
        yield f"The command of {side.id} was not recorded."
    if side.stack is None:
        yield f"The stack of {side.id} is not known."
    if not side.settings:
        yield f"The effective settings of {side.id} are not known: its log did not print them."
    if side.around is None:
        yield f"The environment that {side.id} was started from is not known, only what was set for it."


def shown(value: Any) -> str:
    """A value on one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
