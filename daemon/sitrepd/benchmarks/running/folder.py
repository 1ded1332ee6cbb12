"""The folder of one run: what was called in it, what that printed, and how it is left without secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sitrepd.benchmarks import originals
from sitrepd.benchmarks.running.tools import DIARY, Call
from sitrepd.redact import redact_argv, redact_env

PRINTED = "output.log"
_CALL = "call.json"


def note_call(folder: Path, call: Call) -> None:
    """What is run, for people and for the next daemon, which must know where the result will be."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    told = {
        "argv": redact_argv(list(call.argv)), "output": str(call.output), "env": sorted(redact_env(call.env)),
        "workload": dict(call.workload),
    }  # fmt: skip
    (folder / _CALL).write_text(json.dumps(told, indent=1))


def call_of(folder: Path) -> Mapping[str, Any]:
    """As it was noted; an earlier daemon may have done that, or been ended before."""
    try:
        told = json.loads((folder / _CALL).read_text())
    except (OSError, ValueError):
        told = None
    return told if isinstance(told, dict) else {}


def clean(folder: Path, *, done: bool = False) -> None:
    """What a tool has written may hold secrets; the result of a run that is `done` was kept without them elsewhere."""
    for path in [
        folder / PRINTED,
        folder / DIARY,
        *folder.glob("result.*"),
        *folder.glob("artifacts/**/*.json*"),
    ]:
        with suppress(OSError):
            if done and path.name != PRINTED:
                path.unlink()
            else:
                path.write_bytes(originals.without_secrets(path.read_bytes()))
