"""Where our script is kept, what it is called with, and which `sitrep` the clients start."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from sitrepd.paths import resource_dir
from sitrepd.places import data_dir

SCRIPT = "sitrep-hook"


def shipped(*parts: str) -> bytes:
    """A file of deploy/agents."""
    return resource_dir("deploy/agents").joinpath(*parts).read_bytes()


def script_path() -> Path:
    """The user's copy of the script that hooks call."""
    told = os.environ.get("XDG_DATA_HOME")
    return (Path(told) if told else Path.home() / ".local" / "share") / "sitrep" / SCRIPT


def script(store: Path | None = None) -> bytes:
    """The script, with the store, the address and the program that it speaks to put in."""
    values = {"store": str(store or data_dir()), "sitrep": program(), "url": os.environ.get("SITREP_URL", "")}
    lines = shipped(SCRIPT).decode().splitlines(keepends=True)
    for name, value in values.items():
        at = lines.index(f"{name}=\n")
        lines[at] = f"{name}={shlex.quote(value) if value else ''}\n"
    return "".join(lines).encode()


def call_of(path: Path) -> str:
    """The script as a shell command, by $HOME where it is below it: the same words for every user of a project."""
    try:
        return f'"$HOME/{path.relative_to(Path.home())}"'
    except ValueError:
        return shlex.quote(str(path))


def program() -> str:
    """The `sitrep` of this very installation, so that a client finds it whatever its PATH is."""
    beside = Path(sys.executable).with_name("sitrep")
    return str(beside) if beside.exists() else shutil.which("sitrep") or "sitrep"


def mcp_environment() -> dict[str, str]:
    """What the MCP server needs to find the same daemon."""
    return {
        name: os.environ[name] for name in ("SITREP_DATA_DIR", "SITREP_URL", "SITREP_CONFIG") if os.environ.get(name)
    }


def top_of(folder: Path) -> Path:
    """The top of the work tree, else the folder itself."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
