from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sitrepd.stack.bounded import run_bounded

_TIMEOUT_S = 5.0
_MOST_TREES = 8
# A repository's own settings may name programs to run; and a status that takes the index lock fails its owner's commit.
_QUIET = ("git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "--no-optional-locks")


@dataclass(frozen=True, slots=True)
class GitTree:
    """A working tree that takes part; `dirty` is about tracked files, and None where it could not be told."""

    path: str
    commit: str | None
    dirty: bool | None


def git_trees(paths: Iterable[str | Path]) -> list[GitTree]:
    """The working trees that hold the paths, each once, in the order of the paths."""
    found: dict[str, GitTree] = {}
    for path in paths:
        tree = git_tree(path) if len(found) < _MOST_TREES else None
        if tree is not None:
            found.setdefault(tree.path, tree)
    return list(found.values())


def git_tree(path: str | Path) -> GitTree | None:
    """None outside a working tree, also where git is not installed."""
    folder = Path(path)
    if not folder.is_dir() or not any((above / ".git").exists() for above in (folder, *folder.absolute().parents)):
        return None
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return None
    status = _git(Path(top), "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    return GitTree(top, _git(Path(top), "rev-parse", "HEAD"), None if status is None else bool(status))


def _git(folder: Path, *words: str) -> str | None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = run_bounded([*_QUIET, *words], env={**env, "LC_ALL": "C"}, cwd=folder, timeout_s=_TIMEOUT_S)
    return None if ran.reason else ran.output.strip()
