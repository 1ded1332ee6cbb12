"""The tools about servers: start one, wait for one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sitrepd.agents.mcp.ask import Refused
from sitrepd.agents.mcp.tool import Tool, Use, listed, text, texts

_PIECE_S = 4.0
_USUAL_S = 45.0
_MOST_S = 600.0
_ASKED = ("command", "argv", "name", "engine", "port", "ready_url", "ready_pattern", "log_path", "force")


async def _launch_server(use: Use) -> str:
    told = use.given(*_ASKED)
    if ("command" in told) == ("argv" in told):
        raise Refused("launch_server: give either command, a shell line as it would be pasted, or argv.")
    launch = (await use.ask("POST", "/launches", told | _surroundings(use))).data
    name = f" ({launch['name']})" if launch.get("name") else ""
    lines = [f"{launch['id']}{name} started, pid {launch.get('pid')}, {launch.get('engine')}."]
    if launch.get("log_path"):
        lines.append(f"Log: {launch['log_path']}")
    lines += [
        f"Warning: {one['text']}{' ' + one['fix'] if one.get('fix') else ''}" for one in launch.get("checks") or ()
    ]
    lines += [f"Note: {one}" for one in launch.get("warnings") or ()]
    return "\n".join([*lines, f'It loads now: wait_for(launch="{launch["id"]}") says when it is ready or has failed.'])


def _surroundings(use: Use) -> dict[str, Any]:
    """The caller's, where its process is on this machine; else the daemon's, in the caller's folder."""
    added = {str(name): str(value) for name, value in (use.told.get("env") or {}).items()}
    cwd = use.told.get("cwd") or use.cwd
    if use.caller is None:
        return ({"cwd": cwd} if cwd else {}) | ({"env": added} if added else {})
    kept = {name: use.caller[name] for name in ("umask", "limits", "nice", "affinity") if name in use.caller}
    environment = {**(use.caller.get("env") or {}), **added}
    folder = cwd or use.caller.get("cwd")
    return {**kept, "cwd": folder, "env": environment, "inherit_env": False, "told_env": sorted(added)}


async def _wait_for(use: Use) -> str:
    """In pieces, so that the client sees progress and takes its time limit anew."""
    name, wanted = str(use.told["launch"]), listed(use.told.get("for")) or ["ready"]
    limit = min(float(use.told.get("timeout_s", _USUAL_S)), _MOST_S)
    began = time.monotonic()
    while True:
        left = max(0.0, limit - (time.monotonic() - began))
        query = {"for": wanted, "timeout_s": round(min(_PIECE_S, left), 3)}
        told = (await use.ask("GET", f"/launches/{name}/wait", query=query)).data
        if told.get("reached") is not None or told["over"]:
            return _ended(told, wanted)
        waited = time.monotonic() - began
        moment = _moment((await use.ask("GET", f"/launches/{name}/live")).data)
        if waited >= limit:
            again = f"{' or '.join(wanted)} was not reached within {limit:.0f} s. Call wait_for again to go on waiting."
            return f"{moment}; {again}"
        await use.report(waited, moment)


def _ended(told: Mapping[str, Any], wanted: list[str]) -> str:
    name, state = told["id"], told.get("state") or "in a state that was not recorded"
    why = f": {told['failure']}" if told.get("failure") else ""
    code = f" (exit status {told['exit_code']})" if told.get("exit_code") is not None else ""
    if told.get("reached") is None:
        return f"{name} is {state}{code}, and will not be {' or '.join(wanted)} any more{why}"
    if told["reached"] in (state, "ended", "failed"):
        return f"{name} is {state}{code}{why or '.'}"
    return f"{name} has reached {told['reached']}; it is {state}."


def _moment(told: Mapping[str, Any]) -> str:
    parts = [f"{told['id']} is {told.get('state')}"]
    if told.get("title"):
        parts.append(str(told["title"]))
    if told.get("progress") is not None:
        parts.append(f"{Decimal(told['progress']) * 100:.0f} % of this phase")
    if told.get("remaining_s") is not None:
        parts.append(f"about {_span(float(told['remaining_s']))} left")
    if told.get("suspect"):
        parts.append(f"suspect: {told['suspect']}")
    return ", ".join(parts)


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


LAUNCH_SERVER = Tool(
    "launch_server",
    "Start a server",
    "Start an inference server that outlives this conversation and is watched: phases, time left, failure with its "
    "cause. Use it instead of nohup. Returns at once.",
    {
        "command": text("A shell line as it would be pasted; nohup, > log and & are understood."),
        "argv": texts("Or its words."),
        "name": text("What it is called, such as 3 steps."),
        "cwd": text("Its working directory."),
        "env": {"type": "object", "description": "Set in its environment; secrets as ${NAME}."},
        "port": {"type": "integer", "description": "Where the command does not say it."},
        "engine": text("sglang, vllm or generic; else recognised."),
        "log_path": text("Where its output goes."),
        "ready_url": text("Answers 200 when it is ready; for engines that are not known."),
        "ready_pattern": text("Regular expression of the log line that says ready."),
        "force": {"type": "boolean", "description": "Start it although its port is taken."},
    },
    _launch_server,
)
WAIT_FOR = Tool(
    "wait_for",
    "Wait for a server",
    "Wait until a launch is ready, has failed or ended, or has come to a state or phase; says progress and time left "
    "when the time is over.",
    {
        "launch": text("Which, such as L14."),
        "for": texts("ready (if absent), ended, failed, any state or phase."),
        "timeout_s": {
            "type": "number", "minimum": 0, "maximum": _MOST_S,
            "description": "Seconds to wait at the most; 45 if absent, as clients end long calls.",
        },
    },
    _wait_for,
    required=("launch",),
    reads=True,
)  # fmt: skip
