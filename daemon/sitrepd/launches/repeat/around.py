"""The surroundings that a launch was started in, kept beside its process with secrets as references."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sitrepd import redact
from sitrepd.errors import InvalidFact
from sitrepd.launches.models import Launch, LaunchCreate

REQUEST_NAME = "request.json"
_REFERENCE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True, slots=True)
class Around:
    """`env` has `${NAME}` for each secret; `secrets` are the references that the command itself has."""

    env: Mapping[str, str] = field(default_factory=dict)
    inherit_env: bool = True
    told_env: Sequence[str] = ()
    umask: int | None = None
    limits: Mapping[str, Sequence[int]] | None = None
    nice: int | None = None
    affinity: Sequence[int] | None = None
    log_path: str | None = None
    port: int | None = None
    secrets: Sequence[str] = ()


def around_of(body: LaunchCreate) -> dict[str, Any]:
    """What is to be kept of a request, as JSON."""
    told = Around(
        env=redact.redact_env(body.env or {}),
        inherit_env=body.inherit_env,
        told_env=list(body.told_env or ()),
        umask=body.umask,
        limits=body.limits,
        nice=body.nice,
        affinity=body.affinity,
        log_path=body.log_path,
        port=body.port,
        secrets=sorted(_secrets(body)),
    )
    return asdict(told)


def _secrets(body: LaunchCreate) -> set[str]:
    """Names of the secrets in the command, spelled out or referred to."""
    original = body.command or body.argv or []
    redacted = redact.redact_command(original) if isinstance(original, str) else redact.redact_argv(original)
    named = references(redacted if isinstance(redacted, str) else "\n".join(redacted))
    env = body.env or {}
    known = {name for name in named if name in env and redact.redact_env({name: env[name]})[name] != env[name]}
    return known | set(redact.secret_references(original, redacted))


def read_around(row: Launch) -> Around | None:
    """None for a launch that was not started here, or of which nothing is kept."""
    folder = (row.process or {}).get("state_dir")
    if not folder:
        return None
    try:
        told = json.loads((Path(folder) / REQUEST_NAME).read_text())["around"]
        return Around(**told)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def references(text: str) -> set[str]:
    """Names that the text refers to as `${NAME}`."""
    return set(_REFERENCE.findall(text))


def needed(row: Launch, around: Around | None) -> set[str]:
    """The secrets without which the command cannot be run: what was taken out of it, and out of what was told for it.

    Of a launch that was only told, the references with the name of a secret, unless the text itself sets them.
    """
    texts = [row.command] if row.command else list(row.argv or ())
    named = {name for text in texts for name in references(text) if redact.is_secret_name(name)}
    if row.command:
        own = {name for name in named if re.search(rf"\b{name}=(?!\"?\$\{{{name}\}})", row.command)}
        named -= own
    told = {name for name, value in (row.env or {}).items() if value == f"${{{name}}}"}
    return named | told | set(around.secrets if around else ())


def resolved(env: Mapping[str, str], known: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """(the environment with each `${NAME}` that stands for itself resolved, the names for which nothing is known)"""
    found: dict[str, str] = {}
    missing = []
    for name, value in env.items():
        if value != f"${{{name}}}":
            found[name] = value
        elif name in known:
            found[name] = known[name]
        else:
            missing.append(name)
    return found, missing


def filled(argv: Sequence[str], names: set[str], known: Mapping[str, str]) -> list[str]:
    """The words with the secrets in place; no shell stands between them and the program."""

    def fill(match: re.Match[str]) -> str:
        return known.get(match[1], match[0]) if match[1] in names else match[0]

    return [_REFERENCE.sub(fill, word) for word in argv]


def must_know(names: set[str], known: Mapping[str, str], launch: str) -> None:
    """Raises InvalidFact for the first secret that the caller's environment lacks."""
    missing = sorted(name for name in names if name not in known)
    if missing:
        what = ", ".join(missing)
        raise InvalidFact(
            f"{launch} was started with the secret {what}, which is not stored. Set {missing[0]} in the environment "
            f"and ask again, or give it with --env {missing[0]}=…."
        )


def own_environment() -> dict[str, str]:
    return dict(os.environ)
