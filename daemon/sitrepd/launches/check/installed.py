"""The options of the SGLang that a command would start, asked of its own interpreter and kept by version."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitrepd.launches.check import asked_flags
from sitrepd.launches.check.model import Subject
from sitrepd.stack.bounded import run_bounded
from sitrepd.stack.interpreter import Interpreter, find_interpreter

_MOST_BYTES = 8 << 20
_KEY = re.compile(r"[0-9a-f]{20}")
_UNWANTED_ENV = {"LD_PRELOAD", "PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME"}


@dataclass(frozen=True)
class Installed:
    """`options` is None where `reason` says why they are not known; `found` is false where there is no SGLang."""

    interpreter: Interpreter
    version: str | None = None
    options: list[dict[str, Any]] | None = None
    reason: str | None = None
    found: bool = True
    cached: bool = False


def installed_sglang(subject: Subject, folder: Path, timeout_s: float) -> Installed:
    """Blocks for about 0.2 s where the options are kept already, else for one to twenty; never raises."""
    python = find_interpreter(subject.argv, subject.env, str(subject.cwd))
    if python.path is None:
        return Installed(python, reason=python.reason)
    known = [path.stem for path in folder.glob("*.json")]
    answer, reason = _ask(python, known, timeout_s)
    if reason is not None:
        return Installed(python, reason=reason)
    if not answer.get("found"):
        return Installed(python, found=False, reason=f"{python.path} finds no SGLang")
    kept = _kept(folder, answer)
    if kept is None:
        return Installed(python, answer.get("version"), reason="its parser could not be read")
    return Installed(python, answer.get("version"), kept, cached="options" not in answer)


def _ask(python: Interpreter, known: list[str], timeout_s: float) -> tuple[dict[str, Any], str | None]:
    script = Path(asked_flags.__file__).read_text()
    question = json.dumps({"first_path": python.first_path, "known": known, "limit_s": int(timeout_s) + 1})
    env = {name: value for name, value in python.env.items() if name not in _UNWANTED_ENV}
    ran = run_bounded(
        [str(python.path), *python.options, "-c", script, question],
        env={**env, "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""},
        cwd=python.cwd,
        timeout_s=timeout_s,
        limit_bytes=_MOST_BYTES,
    )
    marked = [line for line in ran.output.splitlines() if line.startswith(asked_flags.MARK)]
    if ran.reason is not None or not marked:
        return {}, ran.reason or f"{python.path} gave no answer"
    try:
        answer: dict[str, Any] = json.loads(marked[-1].removeprefix(asked_flags.MARK))
    except ValueError:
        return {}, f"{python.path} gave no answer that can be read"
    return answer, None


def _kept(folder: Path, answer: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The options from the answer, which are then stored, or from where an earlier answer was stored."""
    key = str(answer.get("key"))
    if not _KEY.fullmatch(key):
        return None
    path = folder / f"{key}.json"
    if "options" in answer:
        _store(path, answer)
        return list(answer["options"])
    try:
        return list(json.loads(path.read_text())["options"])
    except (OSError, ValueError, KeyError):
        path.unlink(missing_ok=True)
        return None


def _store(path: Path, answer: dict[str, Any]) -> None:
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps({name: answer[name] for name in ("version", "folder", "how", "options")}))
        partial.replace(path)
    except OSError:
        return
