"""What belongs into the settings of each client: which files, and how each looks with our entries and without them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import tomlkit
from tomlkit.exceptions import TOMLKitError

from sitrepd.agents.install import entries, where
from sitrepd.agents.install.files import Change, as_it_was, read
from sitrepd.agents.install.jsonc import Jsonc
from sitrepd.errors import Conflict, InvalidFact
from sitrepd.places import data_dir

Scope = Literal["user", "project"]
Edit = Callable[[Jsonc], None]
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Target:
    """A client in one of its scopes; `top` is the project's folder."""

    client: str
    scope: Scope
    top: Path

    @property
    def is_user(self) -> bool:
        return self.scope == "user"


@dataclass(frozen=True)
class Part:
    """One file: where it is, and what it holds with our entries (`put`) and without them (`take`)."""

    path: Path
    put: Callable[[bytes | None], bytes | None]
    take: Callable[[bytes | None], bytes | None]
    ours: bool = False
    mode: int | None = None

    def change(self, install: bool) -> Change:
        before = read(self.path)
        try:
            after = (self.put if install else self.take)(before)
        except (InvalidFact, ValueError, TOMLKitError) as error:
            told = getattr(error, "detail", None) or str(error)
            raise Conflict(f"{self.path} is not as it should be, and was not changed: {told}.") from error
        return Change(self.path, before, after, self.ours, self.mode)


def parts(target: Target) -> list[Part]:
    """The files of a client."""
    return {"claude-code": _claude_code, "codex": _codex, "gemini": _gemini, "opencode": _opencode}[target.client](
        target
    )


Name = Literal["opencode", "claude-code", "codex", "gemini"]
CLIENTS: tuple[Name, ...] = get_args(Name)


def script_part(target: Target) -> Part:
    """The script that hooks call; it goes with the last client of the user that calls it."""

    def take(before: bytes | None) -> bytes | None:
        return before if _called_by_others(target) else None

    return Part(where.script_path(), lambda _: where.script(), take, ours=True, mode=0o755)


def hook_files(target: Target) -> list[Path]:
    """The files of a client and scope in which hooks stand."""
    if target.client == "claude-code":
        return [(claude_folder() if target.is_user else target.top / ".claude") / "settings.json"]
    if target.client == "codex":
        return [(codex_folder() if target.is_user else target.top / ".codex") / "hooks.json"]
    if target.client == "gemini":
        return [(Path.home() / ".gemini" if target.is_user else target.top / ".gemini") / "settings.json"]
    return []


def settings_of(path: Path) -> Any:
    """What a settings file says; None where there is none, or it cannot be read."""
    try:
        return Jsonc(_text(read(path)).removeprefix("\ufeff")).data
    except (InvalidFact, Conflict, ValueError):
        return None


def _called_by_others(target: Target) -> bool:
    scopes: tuple[Scope, ...] = ("user", "project")
    others = (Target(client, scope, target.top) for client in CLIENTS for scope in scopes)
    return any(entries.any_hooks(settings_of(path)) for one in others if one != target for path in hook_files(one))


# --- Claude Code -------------------------------------------------------------------------------------------------


def _claude_code(target: Target) -> list[Part]:
    folder = claude_folder() if target.is_user else target.top / ".claude"
    servers = claude_state() if target.is_user else target.top / ".mcp.json"
    wanted = hooks("claude-code", '"${CLAUDE_PLUGIN_ROOT}"/hooks/sitrep-hook', "claude-code", "hooks", "hooks.json")
    server = {"type": "stdio", **mcp_server()}
    return [
        script_part(target),
        _json(
            folder / "settings.json",
            lambda document: entries.put_hooks(document, wanted),
            entries.take_hooks,
        ),
        _mcp(servers, ("mcpServers", entries.NAME), server),
        _owned(folder / "commands" / "sitrep.md", where.shipped("claude-code", "commands", "sitrep.md")),
    ]


def claude_folder() -> Path:
    told = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(told).expanduser() if told else Path.home() / ".claude"


def claude_state() -> Path:
    """Where Claude Code keeps the servers of a user, among much else."""
    told = os.environ.get("CLAUDE_CONFIG_DIR")
    return (Path(told).expanduser() if told else Path.home()) / ".claude.json"


# --- Codex -------------------------------------------------------------------------------------------------------


def _codex(target: Target) -> list[Part]:
    folder = codex_folder() if target.is_user else target.top / ".codex"
    wanted = codex_hooks()
    return [
        script_part(target),
        _json(folder / "hooks.json", lambda document: entries.put_hooks(document, wanted), entries.take_hooks),
        Part(folder / "config.toml", _put_toml, _take_toml),
    ]


def codex_folder() -> Path:
    told = os.environ.get("CODEX_HOME")
    return Path(told).expanduser() if told else Path.home() / ".codex"


def codex_hooks() -> dict[str, list[Any]]:
    return hooks("codex", "sitrep-hook", "codex", "hooks.json")


def _put_toml(before: bytes | None) -> bytes:
    text = _text(before)
    wanted = mcp_server()
    document = tomlkit.parse(text)
    if _toml_server(document) == wanted:
        return before if before is not None else text.encode()
    if _toml_server(document) is None:
        table = tomlkit.document()
        table["mcp_servers"] = {entries.NAME: wanted}
        joint = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        added = f"{text}{joint}{tomlkit.dumps(table).replace('[mcp_servers]' + chr(10), '').lstrip()}"
        try:
            tomlkit.parse(added)
            return added.encode()
        except TOMLKitError:  # the servers stand in one line, which a table cannot add to
            pass
    document.setdefault("mcp_servers", tomlkit.table(is_super_table=True))[entries.NAME] = wanted
    return tomlkit.dumps(document).encode()


def _take_toml(before: bytes | None) -> bytes | None:
    text = _text(before)
    document = tomlkit.parse(text)
    server = _toml_server(document)
    if server is None:
        return before
    put = _put_toml(b"").decode()
    for joint in ("\n", "\n\n", ""):
        rest = text.removesuffix(f"{joint}{put}")
        if rest != text and (not joint or _put_toml(rest.encode()).decode() == text):
            return rest.encode() or None
    servers: Any = document["mcp_servers"]
    del servers[entries.NAME]
    if not servers:
        del document["mcp_servers"]
    return tomlkit.dumps(document).encode()


def _toml_server(document: Any) -> Any:
    servers = document.unwrap().get("mcp_servers")
    return servers.get(entries.NAME) if isinstance(servers, dict) else None


# --- Gemini CLI --------------------------------------------------------------------------------------------------


def _gemini(target: Target) -> list[Part]:
    folder = Path.home() / ".gemini" if target.is_user else target.top / ".gemini"
    wanted = hooks("gemini", '"${extensionPath}"/hooks/sitrep-hook', "gemini", "hooks", "hooks.json")

    def put(document: Jsonc) -> None:
        entries.put_hooks(document, wanted)
        entries.put(document, ("mcpServers", entries.NAME), mcp_server())

    def take(document: Jsonc) -> None:
        entries.take_hooks(document)
        entries.take(document, ("mcpServers", entries.NAME))

    return [script_part(target), _json(folder / "settings.json", put, take)]


# --- opencode ----------------------------------------------------------------------------------------------------


def _opencode(target: Target) -> list[Part]:
    config = opencode_folder() if target.is_user else target.top
    folder = config if target.is_user else target.top / ".opencode"
    server: dict[str, Any] = {"type": "local", "command": [where.program(), "mcp"], "enabled": True}
    if environment := where.mcp_environment():
        server["environment"] = environment
    command = where.shipped("opencode", "command", "sitrep.md").replace(
        b"sitrep resume", where.program().encode() + b" resume"
    )
    schema = {"$schema": "https://opencode.ai/config.json"}
    return [
        _owned(folder / "plugins" / "sitrep.js", opencode_plugin()),
        _mcp(opencode_config(config), ("mcp", entries.NAME), server, schema),
        _owned(folder / "command" / "sitrep.md", command),
    ]


def opencode_folder() -> Path:
    told = os.environ.get("XDG_CONFIG_HOME")
    return (Path(told) if told else Path.home() / ".config") / "opencode"


def opencode_config(folder: Path) -> Path:
    """`opencode.jsonc` where there is one."""
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


def opencode_plugin() -> bytes:
    """The plug-in, with the store or the address that it speaks to put in."""
    text = where.shipped("opencode", "sitrep.js").decode()
    address = os.environ.get("SITREP_URL", "")
    for name, value in (("STORE", str(data_dir())), ("ADDRESS", address), ("PROGRAM", where.program())):
        text = text.replace(f'const {name} = ""', f"const {name} = {json.dumps(value, ensure_ascii=False)}")
    return text.encode()


# --- shared ------------------------------------------------------------------------------------------------------


def hooks(client: str, placeholder: str, *file: str) -> dict[str, list[Any]]:
    """The hooks of a shipped file, calling the user's copy of the script."""
    call = json.dumps(where.call_of(where.script_path()))[1:-1]
    text = where.shipped(*file).decode().replace(f"{json.dumps(placeholder)[1:-1]} {client} ", f"{call} {client} ")
    found: dict[str, list[Any]] = json.loads(text)["hooks"]
    return found


def mcp_server() -> dict[str, Any]:
    environment = where.mcp_environment()
    return {"command": where.program(), "args": ["mcp"], **({"env": environment} if environment else {})}


def _mcp(path: Path, place: tuple[str, ...], server: Any, new: dict[str, Any] | None = None) -> Part:
    return _json(
        path, lambda document: entries.put(document, place, server), lambda document: entries.take(document, place), new
    )


def _json(path: Path, put: Edit, take: Edit, new: dict[str, Any] | None = None) -> Part:
    fresh = json.dumps(new or {}, indent=2)

    def with_ours(before: bytes | None) -> bytes:
        empty = before is None or not before.removeprefix(_BOM).strip()
        document = Jsonc(fresh + "\n" if empty else _text(before))
        put(document)
        return document.text.encode()

    def _is_as_written(was: bytes, before: bytes) -> bool:
        """Whether nobody else has written since: then it is to be what it was, to the byte."""
        try:
            clean = Jsonc(_text(was) if was.removeprefix(_BOM).strip() else fresh)
            text = clean.text
            take(clean)
            return was != before and clean.text == text and with_ours(was) == before
        except (InvalidFact, ValueError):
            return False

    def without_ours(before: bytes | None) -> bytes | None:
        if before is None or not before.removeprefix(_BOM).strip():
            return before
        if (was := as_it_was(path)) is not None and _is_as_written(was, before):
            return was
        document = Jsonc(_text(before))
        take(document)
        if document.data == (new or {}) and document.text.encode() != before and as_it_was(path) is None:
            return None
        return document.text.encode()

    return Part(path, with_ours, without_ours)


def _owned(path: Path, content: bytes) -> Part:
    """A file that is ours alone."""

    def put(before: bytes | None) -> bytes:
        if before is not None and b"itrep" not in before:
            raise InvalidFact("there is a file of that name, which is not Sitrep's; move it away")
        return content

    def take(before: bytes | None) -> bytes | None:
        return None if before is not None and b"itrep" in before else before

    return Part(path, put, take, ours=True)


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8")


def planned(target: Target, install: bool) -> Sequence[Change]:
    """What is to change; nothing is written."""
    return [part.change(install) for part in parts(target)]
