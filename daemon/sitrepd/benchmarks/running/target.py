"""The server that is measured: where it answers, what it serves, and which Python it runs on."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session

from sitrepd.errors import Conflict, InvalidFact, UnknownId
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.storage import ids

_KEY_OPTIONS = ("--api-key", "--api_key")
_LOCAL = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


@dataclass(frozen=True)
class Target:
    """`env` and `api_key` hold secrets: they are handed to a process, and never stored.

    `program` is the file that starts the tool and `path` where else it may be, as the one who asks has said.
    """

    launch: str
    engine: str | None
    host: str
    port: int
    model: str | None
    served_name: str | None
    python: str | None
    why_no_python: str | None = None
    options: tuple[str, ...] = ()
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_key: str | None = field(default=None, repr=False)
    program: str | None = None
    path: str | None = None

    @property
    def url(self) -> str:
        return f"http://[{self.host}]:{self.port}" if ":" in self.host else f"http://{self.host}:{self.port}"

    def surroundings(self) -> dict[str, str]:
        """The launch's environment; a key that its server wants is where the clients look for it."""
        env = dict(self.env)
        for name in ("LD_PRELOAD", "PYTHONINSPECT", "PYTHONSTARTUP", "SITREP_LAUNCH"):
            env.pop(name, None)
        if self.api_key:
            env["OPENAI_API_KEY"] = self.api_key
        return env

    def around(self, own: Mapping[str, str]) -> dict[str, str]:
        """What a command runs in: a whole environment (it has a PATH) as it is, else the launch's with that added."""
        return dict(own) if "PATH" in own else {**self.surroundings(), **own}


def launch_row(db: Session, asked: str) -> Launch:
    """The launch of that public id."""
    parsed = ids.parse_id(asked)
    row = db.get(Launch, parsed[1]) if parsed is not None and parsed[0] == "L" else None
    if row is None:
        raise UnknownId(f"There is no launch {asked!r}. Ids of launches look like L1; `sitrep launch list` lists them.")
    return row


def must_be_ready(row: Launch) -> None:
    """Raises Conflict with what can be done where it cannot be measured now."""
    name = ids.public_id("L", row.id or 0)
    if not row.watched:
        raise Conflict(
            f"{name} is a record of a launch, and no process that is followed here: nothing can be measured against "
            "it. Import what was measured with `sitrep bench import FILE --launch` instead."
        )
    if row.ended_at is not None or row.state not in ALIVE:
        why = f": {row.failure}" if row.failure else ""
        raise Conflict(f"{name} has ended ({row.state}){why}. Start it again with `sitrep restart {name}`.")
    if row.state != "ready":
        raise Conflict(f"{name} is {row.state}, not ready. Measure it once it is: --wait, or `sitrep wait {name}`.")


def must_differ(rows: Sequence[Launch]) -> None:
    """Raises InvalidFact for the same launch twice, and Conflict for two of one server; blocks a little."""
    seen: dict[tuple[str, int], str] = {}
    names = [ids.public_id("L", row.id or 0) for row in rows]
    for name in names:
        if names.count(name) > 1:
            raise InvalidFact(f"{name} is named twice. Launches that are measured in turns are different servers.")
    for name, row in zip(names, rows, strict=True):
        place = _place(row)
        if place is None:
            continue
        if place in seen:
            raise Conflict(
                f"{seen[place]} and {name} are the same server, at port {place[1]}: nothing tells apart what is "
                "measured of them. Launches that are measured in turns are different servers."
            )
        seen[place] = name


def _place(row: Launch) -> tuple[str, int] | None:
    """Where it answers; None for one that has yet to say so."""
    try:
        target = find_target(row)
    except Conflict:
        return None
    return (_LOCAL.get(target.host, target.host), target.port)


def find_target(row: Launch) -> Target:
    """Reads /proc and the command; blocks a little. Raises Conflict where no port is known."""
    from sitrepd.launches.engines import engine_for
    from sitrepd.stack.launched import Told, interpreter, running

    name = ids.public_id("L", row.id or 0)
    process = row.process or {}
    told = Told(row.argv, row.command, row.env, row.cwd, process.get("identity"), process.get("main"))
    found = interpreter(told)
    words = _words(row, running(told, identity=process.get("main")) or running(told))
    facts = engine_for(words, None, None).describe(words, found.env)
    port = row.port or facts.port
    if port is None:
        raise Conflict(f"The port of {name} is not known. Tell it at the start: `sitrep launch --port PORT -- …`.")
    host = (facts.host or "").strip("[]")
    return Target(
        launch=name,
        engine=row.engine,
        host=_ANY.get(host, host),
        port=port,
        model=(row.settings or {}).get("model_path") or row.model or facts.model_path,
        served_name=(row.settings or {}).get("served_model_name") or facts.served_name,
        python=found.path,
        why_no_python=found.reason,
        options=found.options,
        cwd=row.cwd or "/",
        env=found.env or dict(os.environ),
        api_key=_key(words),
    )


def _words(row: Launch, started: Any) -> Sequence[str]:
    """As the process has them now, with its secrets; else as they were kept."""
    if started is not None and len(started.argv) > 1:
        return list(started.argv)
    server = (row.process or {}).get("server") or {}
    if server.get("argv"):
        return list(server["argv"])
    if row.argv:
        return row.argv
    if row.command:
        from sitrepd.launches.command import parse_command

        try:
            return parse_command(row.command, {}, row.cwd or "/").argv
        except Exception:
            return row.command.split()
    return []


def _key(words: Sequence[str]) -> str | None:
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _KEY_OPTIONS:
            found = value if equals else next(iter(words[at + 1 : at + 2]), None)
            return found if found and not found.startswith("${") else None
    return None
