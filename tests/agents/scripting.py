"""The script that hooks call, run as a client runs it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from tests.agents.calling import payload
from tests.helpers import PATIENCE_S

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "agents" / "sitrep-hook"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl: apt-get install curl")


@cache
def patient() -> Path:
    """A copy of the script that waits for a daemon on a loaded machine, as long as a test does."""
    code = SCRIPT.read_text()
    for hasty, patient in (("timeout 1", f"timeout {PATIENCE_S:.0f}"), ("-m 0.85 ", f"-m {PATIENCE_S:.0f} ")):
        assert code.count(hasty) == 1
        code = code.replace(hasty, patient)
    path = Path(mkdtemp(prefix="sitrep-hook-")) / "sitrep-hook"
    atexit.register(shutil.rmtree, path.parent)
    path.write_text(code)
    path.chmod(0o755)
    return path


def run(event: str, store: Path, told: Any = None, client: str = "claude-code", hasty: bool = False, **env: str) -> str:
    """What it prints; it says nothing else, and exits 0."""
    body = told if isinstance(told, bytes) else json.dumps(told or payload(event, source="startup")).encode()
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "SITREP_DATA_DIR": str(store)} | env
    done = subprocess.run(
        [SCRIPT if hasty else patient(), client, event],
        input=body,
        capture_output=True,
        env=environment,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def said(printed: str) -> str:
    text: str = json.loads(printed)["hookSpecificOutput"]["additionalContext"]
    return text
