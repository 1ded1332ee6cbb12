"""`sitrep ps`: the servers on the daemon's machine, whoever started them, and what earlier ones left behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "ps")
def ps(cli: Cli) -> None:
    """All servers on the machine, leftovers of earlier ones with the command that ends them, and running benchmarks."""
    cli.show(cli.client.get("/servers"), _say)


def _say(told: dict[str, Any]) -> None:
    output.table(told["servers"], COLUMNS, "No server runs on this machine.")
    for one in told["orphans"]:
        output.say(f"\nLeft of {one.get('launch') or 'a server that is gone'}: {_left(one)}. This ends them:")
        output.say(f"  {one['command']}")
    for one in told["benchmarks"]:
        output.say(f"\nBenchmark {one['name']} runs since {output.local_time(one['started_at'])} (pid {one['pid']}).")


def _left(one: Mapping[str, Any]) -> str:
    held = [output.size(one["gpu_memory_bytes"]) + " of GPU memory"] if one.get("gpu_memory_bytes") else []
    held += [f"port {port}" for port in one["ports"]]
    names = ", ".join(one["names"])
    return f"{names} (pid {', '.join(map(str, one['pids']))})" + (f" with {' and '.join(held)}" if held else "")


def _state(server: Mapping[str, Any]) -> str:
    if not server["readable"]:
        return "another user's"
    return str(server.get("state") or ("inside a program" if server["embedded"] else "not followed"))


def _log(server: Mapping[str, Any]) -> str:
    return str(server.get("log_path") or server.get("log_problem") or "")


COLUMNS: tuple[Column, ...] = (
    ("LAUNCH", "launch"),
    ("STATE", _state),
    ("PID", "pid"),
    ("USER", "user"),
    ("KIND", "kind"),
    ("MODEL", "model"),
    ("PORT", lambda server: server["listening"] or server.get("port")),
    ("GPU MEMORY", lambda server: output.size(server.get("gpu_memory_bytes"))),
    ("RANKS", lambda server: len(server["ranks"]) or None),
    ("STARTED", "started_at"),
    ("CONTAINER", "container"),
    ("LOG", _log),
)
