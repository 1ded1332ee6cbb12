"""What a tool says of its own options: asked once for each version, and kept in the store's folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from sitrepd.benchmarks.running import tools
from sitrepd.benchmarks.running.flags import options_in, unknown
from sitrepd.benchmarks.running.target import Target
from sitrepd.errors import InvalidFact

_TIMEOUT_S = 120.0
_ABSENT = 3
_OF_THE_SERVER = ("sglang", "sglang-rust")
_WIDE = {"COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}
"""Or a table of options would break the names of those that are long."""


def help_of(tool: str, target: Target, version: str | None, folder: Path) -> str | None:
    """The help text; None where the tool is not asked or gave none. Takes as long as the tool's imports, once."""
    words = tools.help_words(tool, target)
    if words is None:
        return None
    kept = folder / f"{_key(words, version if tool in _OF_THE_SERVER else _changed(words[0]))}.json"
    try:
        return str(json.loads(kept.read_text())["help"])
    except (OSError, ValueError, KeyError):
        pass
    from sitrepd.stack.bounded import run_bounded

    ran = run_bounded(words, env={**target.surroundings(), **_WIDE}, cwd=_folder(target), timeout_s=_TIMEOUT_S)
    if ran.reason is not None and f"exit code {_ABSENT}" in ran.reason:
        raise InvalidFact(f"{target.launch} cannot be measured with {tool}: {ran.reason.rpartition(': ')[2]}")
    if not options_in(ran.output):
        if tool == "guidellm":
            raise InvalidFact(f"{words[0]} has no `guidellm run`, which came with 0.8: `pip install -U guidellm`.")
        return None
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept.write_text(json.dumps({"words": words, "version": version, "help": ran.output}))
    return ran.output


def check(tool: str, flags: Sequence[str], help_text: str | None) -> None:
    """Raises InvalidFact for an option that the tool does not have; says nothing where its help is not known."""
    if help_text is None:
        return
    found = unknown(flags, options_in(help_text))
    if found:
        option, near = found[0]
        meant = f" {near} is the nearest that it has." if near else ""
        raise InvalidFact(f"{option} is no option of this version of {tool}.{meant}")


def _folder(target: Target) -> str:
    return target.cwd if os.path.isdir(target.cwd) else "/"


def _changed(program: str) -> str | None:
    """An installer writes the file anew with each version."""
    try:
        return str(os.stat(program).st_mtime_ns)
    except OSError:
        return None


def _key(words: Sequence[str], version: str | None) -> str:
    return hashlib.sha256(json.dumps([*words, version]).encode()).hexdigest()[:24]
