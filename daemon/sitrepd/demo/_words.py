"""What the demo says to somebody who has never heard of Sitrep."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from typing import Any

INTRODUCTION = """\
Sitrep remembers what a long GPU-serving session has established, and writes it down while the session waits.
This is a demo: it needs no GPU and no SGLang, and it leaves nothing behind.

  The session is real, and imported from a file: EAGLE-3 speculative decoding for Kimi-K2.5 on eight GPUs. Its
  3-step server takes 15 to 20 minutes to load, and the agent that tunes it forgets flags and numbers meanwhile.
  The server that starts now is a replay: a process that prints what SGLang prints and loads no model. It is
  quicker than a real one, so the time left, which rests on real ones, is too long at first.

While it loads, nobody says anything. After 3 s of that (30 s outside a demo) Sitrep writes a checkpoint.
"""
_RULE = "─" * 12
ABOVE = f"\n{_RULE} What an agent, or the next engineer, gets to read (sitrep resume) {_RULE}\n"
_NAMED = {"benchmark": "benchmarks", "directive": "directives", "finding": "findings", "next_step": "next steps"}


def counted(counts: Mapping[str, int]) -> str:
    """How many facts an import has brought, and how many of the kinds that say most."""
    named = [f"{counts[kind]} {word}" for kind, word in _NAMED.items() if counts.get(kind)]
    return f"{sum(counts.values())} facts, among them {', '.join(named)}"


def phase(launch: str, moment: Mapping[str, Any]) -> str:
    """What a launch has begun to do, as one line; empty where there is nothing to say."""
    state = moment.get("state")
    if state == "ready":
        return f"{launch} is ready."
    if state in ("failed", "exited", "lost"):
        return f"{launch} has {state}. {moment.get('failure') or ''}".rstrip()
    title = moment.get("title")
    return f"{launch}: {title[0].lower()}{title[1:]}." if title else ""


def checkpoint(told: Mapping[str, Any]) -> str:
    return f"Sitrep wrote checkpoint {told['id']} ({told['trigger']})."


def below(characters: int) -> str:
    return f"\n{_RULE} {characters} characters; computed from the facts, no language model wrote it {_RULE}\n"


def next_steps(link: str, store: str, launch: str) -> str:
    """What to do next, with commands that work as they stand."""
    sitrep = _sitrep()
    lines = [
        "What to do next",
        "  See the dashboard, live. The link opens once; press Enter here for another.",
        f"      {link}",
        *_over_ssh(link),
        "  Ask it from another terminal:",
        f"      export SITREP_DATA_DIR={shlex.quote(store)}",
        f"      {sitrep} resume          # what you have just read, and what has changed since",
        f"      {sitrep} watch {launch}        # the server that loads",
        f"      {sitrep} compare         # which configuration is best, and by how much",
        f"      {sitrep} open            # another link to the dashboard",
        "  End it with Ctrl-C: daemon, replay and store go with it.",
        "",
    ]
    return "\n".join(lines)


def _sitrep() -> str:
    """How this program is called from another terminal."""
    if "UV_RUN_RECURSION_DEPTH" in os.environ:
        return "uv run sitrep"
    return "sitrep" if shutil.which("sitrep") else shlex.quote(os.path.abspath(sys.argv[0]))


def _over_ssh(link: str) -> list[str]:
    if "SSH_CONNECTION" not in os.environ:
        return []
    port = link.split("/")[2].rpartition(":")[2]
    return [f"      (over ssh, first run on your own machine: ssh -N -L {port}:127.0.0.1:{port} THIS-MACHINE)"]
