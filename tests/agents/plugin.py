"""The plug-in of opencode in a process of Node, called as opencode calls it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import PATIENCE_S

HERE = Path(__file__).parent
PLUGIN = HERE.parents[1] / "deploy" / "agents" / "opencode" / "sitrep.js"
MAIN = "You are opencode, an interactive CLI tool that helps users with software engineering tasks."
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js: apt-get install nodejs")


def _patient(store: Path) -> Path:
    """A copy of the plug-in that waits for a daemon on a loaded machine, as long as a test does."""
    code, changes = re.subn(
        r"const (LIMIT|PATIENT)_MS = \d+", rf"const \1_MS = {PATIENCE_S * 1000:.0f}", PLUGIN.read_text()
    )
    assert changes == 2
    store.mkdir(exist_ok=True)
    patient = store / "sitrep-patient.mjs"
    patient.write_text(code)
    return patient


class Plugin:
    """The plug-in in a process of its own."""

    def __init__(self, store: Path, plugin: Path | None = None, **env: str) -> None:
        self._process = subprocess.Popen(
            ["node", HERE / "plugin.mjs", plugin or _patient(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"SITREP_DATA_DIR": str(store)} | env,
        )  # fmt: skip

    def call(self, hook: str, told: Any, output: Any = None, **more: Any) -> Any:
        """The output as the plug-in left it; it never throws."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"hook": hook, "input": told, "output": output, **more}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer.get("thrown") is None
        self.prompts = answer["prompts"]
        return answer.get("output")

    def event(self, kind: str, /, **properties: Any) -> None:
        self.call("event", {"event": {"id": "evt_1", "type": kind, "properties": properties}})

    def system(self, session: str, first: str = MAIN) -> list[str]:
        """What was added to the system prompt of a request."""
        told = {"sessionID": session, "model": {"id": "m", "providerID": "p"}}
        found: list[str] = self.call("experimental.chat.system.transform", told, {"system": [first]})["system"]
        assert found[0] == first
        return found[1:]

    def says(self, session: str, *texts: str, synthetic: bool = False, message: str = "msg_1") -> None:
        parts = [
            {"id": f"prt_{at}", "type": "text", "text": text, "synthetic": synthetic} for at, text in enumerate(texts)
        ]
        self.call("chat.message", {"sessionID": session}, {"message": {"id": message, "role": "user"}, "parts": parts})

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE_S)
