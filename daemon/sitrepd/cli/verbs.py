"""What every verb has: the common options, the daemon that it speaks to, and how it ends when that refuses."""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from sitrepd.cli.client import Answer, Client, Refused, Unreachable, bearer_token, header_value
from sitrepd.cli.connection import Target, parse_url
from sitrepd.cli.conversation import conversation
from sitrepd.cli.lazily import Command, Lazily
from sitrepd.errors import SitrepError

REFUSED, USAGE, UNREACHABLE, NOT_READY = 1, 2, 3, 4
ENDED, OTHER, TIME_OVER = 5, 6, 124
EXIT_CODES = {
    0: "Done.",
    REFUSED: "Refused by the daemon, or not possible: the error says why and what would be right.",
    USAGE: "The command line is wrong.",
    UNREACHABLE: "No daemon can be reached, and none could be started.",
    NOT_READY: "`launch --watch` and `watch`: the server failed, ended or was lost before it became ready. `check`: a "
    "warning or an error speaks against the launch.",
    ENDED: "`wait`: the server ended; `failed` and `lost` are 4.",
    OTHER: "`wait`: another of the states or phases that were given than the first.",
    TIME_OVER: "`wait`: the time was over.",
    130: "Ended by Ctrl-C.",
}
Verb = Callable[..., None]

Json = Annotated[bool, typer.Option("--json", help="Print the daemon's answer as it came, as JSON; errors too.")]
SessionOption = Annotated[
    str | None, typer.Option("--session", metavar="S", help="The session that is meant: id or name. [SITREP_SESSION]")
]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="The store's folder. [SITREP_DATA_DIR]")]
NoStart = Annotated[bool, typer.Option("--no-start", help="Do not start a daemon where none runs. [SITREP_NO_START=1]")]
COMMON: dict[str, Any] = {
    "common_json": Json, "common_session": SessionOption, "common_data_dir": DataDir, "common_no_start": NoStart,
}  # fmt: skip
_WITH_VALUE = ("--session", "--data-dir")
_FLAGS = ("--json", "--no-start")


@dataclass
class Cli:
    """One call of the command line: what was asked for on it in common, and the daemon's client."""

    json: bool = False
    session: str | None = None
    data_dir: str | None = None
    no_start: bool = False
    in_shell: bool = True

    @cached_property
    def store(self) -> Path:
        from sitrepd.places import data_dir

        return data_dir(self.data_dir)

    @cached_property
    def target(self) -> Target:
        """SITREP_URL counts only where no store is named on the command line."""
        url = os.environ.get("SITREP_URL")
        if not url or self.data_dir is not None:
            return Target(socket_path=self.store / "sitrep.sock")
        found = parse_url(url)
        return replace(found, may_ask=sys.stdin.isatty() and sys.stderr.isatty()) if found.box else found

    @property
    def is_store(self) -> bool:
        """Whether the daemon is the store's own, on this machine."""
        return self.data_dir is not None or not os.environ.get("SITREP_URL")

    @property
    def is_local(self) -> bool:
        """Whether the daemon is on this machine, so that folders and environments mean the same there."""
        return self.target.socket_path is not None or self.target.host in ("127.0.0.1", "localhost", "::1")

    @cached_property
    def client(self) -> Client:
        return Client(self.target, self._headers(), self._start if self.may_start else None)

    def fresh_client(self) -> Client:
        """The client after the session was chosen anew."""
        self.__dict__.pop("client", None)
        return self.client

    @property
    def may_start(self) -> bool:
        return self.is_store and not self.no_start and os.environ.get("SITREP_NO_START", "0") in ("", "0")

    def _start(self) -> None:
        from sitrepd.cli.autostart import start_daemon

        start_daemon(self.store)

    def _headers(self) -> dict[str, str]:
        told = {
            "X-Sitrep-Client": "cli",
            "X-Sitrep-Session": self.session_told,
            "X-Sitrep-Conversation": conversation(self.in_shell),
            "X-Sitrep-Cwd": working_directory(),
            "X-Sitrep-Host": None if self.is_store else this_host(),
        }
        headers = {name: value for name, text in told.items() if text and (value := header_value(text))}
        if self.target.socket_path is None and self.target.box is None and (token := bearer_token(self.store)):
            headers["Authorization"] = f"Bearer {token}"
        return headers

    @property
    def session_told(self) -> str | None:
        return self.session or os.environ.get("SITREP_SESSION") or None

    def path_here(self, path: str) -> str:
        """The absolute path of a file, after the name of this machine where the daemon may be on another."""
        return os.path.abspath(path) if self.is_store else f"{this_host()}:{os.path.abspath(path)}"

    def show(self, answer: Answer, for_people: Callable[[Any], None]) -> None:
        """The answer as it came with --json, else as `for_people` says it."""
        if self.json:
            from sitrepd.cli.output import write_bytes

            write_bytes(answer.body)
        else:
            for_people(answer.data)


def this_host() -> str:
    """What this machine is called to a daemon elsewhere."""
    return os.environ.get("SITREP_HOSTNAME") or socket.gethostname()


def working_directory() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def verb(app: typer.Typer, name: str, cls: type[Command] = Command, **settings: Any) -> Callable[[Verb], Verb]:
    """Make a function `f(cli, …)` a command with the common options; its own options are its other parameters."""

    def register(function: Verb) -> Verb:
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        common = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=_default(kind))
            for key, kind in COMMON.items()
        ]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

        def run(ctx: typer.Context, **told: Any) -> None:
            cli = _combined(ctx.find_root().obj or Cli(), {key: told.pop(key) for key in COMMON})
            call(cli, lambda: function(cli, **told))

        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        run.__signature__ = inspect.Signature([context, *keyword, *common])  # type: ignore[attr-defined]
        run.__annotations__ = {}
        run.__doc__ = function.__doc__
        app.command(name, cls=cls, **settings)(run)
        return function

    return register


def _default(kind: Any) -> Any:
    return False if kind in (Json, NoStart) else None


def _combined(root: Cli, told: dict[str, Any]) -> Cli:
    """What is said after the verb goes before what is said before it."""
    return Cli(
        told["common_json"] or root.json,
        told["common_session"] or root.session,
        told["common_data_dir"] or root.data_dir,
        told["common_no_start"] or root.no_start,
    )


def call(cli: Cli, function: Callable[[], None]) -> None:
    """Run a verb; a refusal is told on standard error and becomes the exit status."""
    try:
        function()
    except Refused as error:
        complain(cli, error, error.answer.problem)
        raise typer.Exit(REFUSED) from error
    except SitrepError as error:
        complain(cli, error, {"type": "about:blank", "title": error.title, "detail": error.detail, **error.extra})
        raise typer.Exit(UNREACHABLE if isinstance(error, Unreachable) else REFUSED) from error


def complain(cli: Cli, error: SitrepError, problem: dict[str, Any]) -> None:
    """`Error: detail` with the places that it does not name itself; with --json the problem object."""
    from sitrepd.redact import redact_json, redact_text

    if cli.json:
        print(json.dumps(redact_json(problem), ensure_ascii=False), file=sys.stderr)
        return
    from sitrepd.cli.output import warn

    warn(redact_text(f"Error: {error.detail}"))
    for one in problem.get("errors") or ():
        place = f"line {one['line']}" if "line" in one else str(one.get("field", ""))
        if str(one.get("message", "")) not in error.detail:
            warn(f"  {place}: {one.get('message')}")
    for one in problem.get("sessions") or ():
        warn("  " + "  ".join(str(one[key]) for key in ("id", "name", "goal") if one.get(key)))


class NounGroup(Lazily, TyperGroup):
    """The verbs of a noun; `bare` is the verb where none is given, `other` the one for what is no verb."""

    bare: str = "list"
    other: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, self.with_verb(list(args)))

    def with_verb(self, args: list[str]) -> list[str]:
        """The arguments with the verb first, also where common options came before it or it was left out."""
        common, rest = _split_common(args)
        if rest and rest[0] in self.commands:
            return [rest[0], *common, *rest[1:]]
        if rest and rest[0] in ("-h", "--help") and not common:
            return args
        if not rest:
            return [self.bare, *common]
        if self.other is not None:
            return [self.other, *args]
        return [self.bare, *args] if rest[0].startswith("-") else [*rest]


def _split_common(args: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(args):
        word = args[at].partition("=")[0]
        if word in _FLAGS or (word in _WITH_VALUE and "=" in args[at]):
            at += 1
        elif word in _WITH_VALUE:
            at += 2
        else:
            break
    return args[:at], args[at:]


def noun(about: str, bare: str = "list", other: str | None = None) -> typer.Typer:
    """A group of verbs."""
    group = type("Group", (NounGroup,), {"bare": bare, "other": other})
    return typer.Typer(cls=group, help=about, rich_markup_mode=None, add_completion=False)
