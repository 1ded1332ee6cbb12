"""What `sitrep doctor` looks at: are the entries in place, trusted, not there twice; does a hook reach the daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from sitrepd.agents.install import clients, entries, where
from sitrepd.agents.install.clients import CLIENTS, Target
from sitrepd.agents.install.files import read
from sitrepd.errors import SitrepError

_PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini": "gemini", "opencode": "opencode"}
_LIMIT_S = 5.0
_EVENT_KEYS = {
    "SessionStart": "session_start", "UserPromptSubmit": "user_prompt_submit", "PreCompact": "pre_compact",
    "PostCompact": "post_compact", "Stop": "stop", "PostToolUse": "post_tool_use", "SessionEnd": "session_end",
}  # fmt: skip


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: whether it is right, and what to do where it is not."""

    about: str
    ok: bool
    detail: str
    fix: str | None = None

    def told(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def checks(top: Path, only: str | None = None) -> Iterator[Check]:
    """All checks of the clients that are installed, set up, or asked for."""
    for client in CLIENTS if only is None else (only,):
        yield from _client(client, top, asked=only is not None)


def reaches(client: str = "doctor") -> Check:
    """Calls the script as a client would, and looks whether the daemon has answered."""
    path = where.script_path()
    if not path.exists():
        return Check("hook", False, f"{path} is not there", "sitrep install CLIENT")
    began = time.perf_counter()
    try:
        done = subprocess.run(
            [path, client, "Ping"], input=b"{}", capture_output=True, timeout=_LIMIT_S, check=False
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Check("hook", False, f"{path} cannot be run: {error}", "sitrep install CLIENT")
    took = f"{(time.perf_counter() - began) * 1000:.0f} ms"
    if done.stdout.strip() == b"pong":
        return Check("hook", True, f"{path} reaches the daemon, in {took}")
    if shutil.which("curl") is None:
        return Check("hook", False, f"{path} needs curl, and there is none on the PATH", "install curl")
    why = f"{path} got no answer from the daemon within {took}"
    return Check("hook", False, why, "start it with `sitrep serve` or `sitrep resume`, and look at `sitrep status`")


def _client(client: str, top: Path, asked: bool) -> Iterator[Check]:
    program = shutil.which(_PROGRAMS[client])
    places = [Target(client, "user", top), Target(client, "project", top)]
    found = [target for target in places if _is_set_up(target)]
    if not found:
        if program is not None or asked:
            there = program or "which is not on the PATH"
            yield Check(client, False, f"{_PROGRAMS[client]}, {there}: nothing of Sitrep is in its settings",
                        f"sitrep install {client}")  # fmt: skip
        return
    for target in found:
        yield _in_place(target)
    if len(found) > 1:
        yield from _twice(client)
    yield from {"claude-code": _claude_code, "codex": _codex, "gemini": _no_more, "opencode": _no_more}[client](found)


def _is_set_up(target: Target) -> bool:
    if target.client == "opencode":
        return any(part.ours and part.path.suffix == ".js" and part.path.exists() for part in clients.parts(target))
    return any(entries.any_hooks(clients.settings_of(path)) for path in clients.hook_files(target))


def _in_place(target: Target) -> Check:
    """Whether installing again would change anything."""
    name, again = f"{target.client} ({target.scope})", f"sitrep install {target.client} --scope {target.scope}"
    try:
        changes = clients.planned(target, True)
    except SitrepError as error:
        return Check(name, False, error.detail, again)
    wrong = [change for change in changes if change.before != change.after]
    if not wrong:
        return Check(name, True, "in place: " + ", ".join(str(change.path) for change in changes))
    told = ", ".join(
        f"{change.path} ({'missing' if change.before is None else 'not as it should be'})" for change in wrong
    )
    return Check(name, False, told, again)


def _twice(client: str) -> Iterator[Check]:
    if client in ("claude-code", "gemini"):
        return  # hooks of the same words are run once
    fix = f"sitrep uninstall {client} --scope project"
    yield Check(client, False, "set up for the user and for this project: everything is told twice", fix)


def _claude_code(found: list[Target]) -> Iterator[Check]:
    for target in found:
        for path in clients.hook_files(target):
            settings = clients.settings_of(path) or {}
            if settings.get("disableAllHooks") is True:
                yield Check("claude-code", False, f"{path} has disableAllHooks", "take that out")
        if not target.is_user:
            yield from _claude_trust(target)


def _claude_trust(target: Target) -> Iterator[Check]:
    state = clients.settings_of(clients.claude_state()) or {}
    project = (state.get("projects") or {}).get(str(target.top)) or {}
    if not project.get("hasTrustDialogAccepted"):
        yield Check("claude-code", False, f"{target.top} is not trusted yet", "start `claude` there once and trust it")
    local = clients.settings_of(target.top / ".claude" / "settings.local.json") or {}
    allowed = [*(project.get("enabledMcpjsonServers") or ()), *(local.get("enabledMcpjsonServers") or ())]
    every = project.get("enableAllProjectMcpServers") or local.get("enableAllProjectMcpServers")
    if entries.NAME not in allowed and not every:
        yield Check(
            "claude-code", False, "its server `sitrep` of .mcp.json is not approved yet", "approve it by `/mcp`"
        )


def _codex(found: list[Target]) -> Iterator[Check]:
    config = _toml(clients.codex_folder() / "config.toml")
    if (config.get("features") or {}).get("hooks") is False:
        yield Check("codex", False, "config.toml turns hooks off (features.hooks)", "set it to true")
    states = (config.get("hooks") or {}).get("state") or {}
    for target in found:
        path = clients.hook_files(target)[0]
        settings = clients.settings_of(path) or {}
        strange = sorted(
            str(one.get("type"))
            for one in _hooks_in(settings)
            if one.get("type") not in ("command", "mcp_tool", "prompt", "agent")
        )
        if strange:
            yield Check("codex", False, f"{path} has a hook of type {strange[0]}: Codex then reads none", "take it out")
        yield _codex_trust(path, settings, states)


def _codex_trust(path: Path, settings: dict[str, Any], states: dict[str, Any]) -> Check:
    waiting = []
    for event, groups in (settings.get("hooks") or {}).items():
        for at, group in enumerate(groups):
            for within, one in enumerate(group.get("hooks") or ()):
                key = f"{path}:{_EVENT_KEYS.get(event, event)}:{at}:{within}"
                if entries.is_ours(one.get("command")) and not (states.get(key) or {}).get("trusted_hash"):
                    waiting.append(event)
    if waiting:
        told = f"not trusted, so Codex skips without a word: {', '.join(waiting)}"
        return Check("codex", False, told, "run `/hooks` in Codex and trust them")
    return Check("codex", True, f"its hooks in {path} are trusted; a hook that was edited since is not, see `/hooks`")


def _no_more(_found: list[Target]) -> Iterator[Check]:
    return iter(())


def _hooks_in(settings: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for groups in (settings.get("hooks") or {}).values():
        for group in groups if isinstance(groups, list) else ():
            yield from (one for one in group.get("hooks") or () if isinstance(one, dict))


def _toml(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = tomlkit.parse((read(path) or b"").decode()).unwrap()
    except (TOMLKitError, SitrepError, ValueError):
        return {}
    return found


def environment() -> Iterator[Check]:
    """What every client needs."""
    for name in ("curl",):
        found = shutil.which(name)
        yield Check(name, found is not None, found or "is not on the PATH", None if found else f"install {name}")
    for name in ("SITREP_DATA_DIR", "SITREP_URL"):
        if told := os.environ.get(name):
            yield Check(
                name, True, f"{json.dumps(told)} is set here; clients started elsewhere go by what was installed"
            )
