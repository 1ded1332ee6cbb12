"""Working trees: what is checked out, and what they have beyond their commit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sitrepd.stack.bounded import run_bounded

_TIMEOUT_S = 5.0
_MOST_TREES = 8
_MOST_DIFF_BYTES = 16 << 20
_KEPT_DIFF_BYTES = 64 << 10
_MOST_UNTRACKED = 20
# A repository's own settings may name programs to run; and a status that takes the index lock fails its owner's commit.
_QUIET = ("git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "--no-optional-locks")


@dataclass(frozen=True, slots=True)
class GitTree:
    """A working tree that takes part; `dirty` is about tracked files, and None where it could not be told."""

    path: str
    commit: str | None
    dirty: bool | None


@dataclass(frozen=True, slots=True)
class TreeDiff:
    """What a tree has beyond its commit: `text` is at most 64 KiB of it, `sha256` is of the whole."""

    path: str
    commit: str | None
    summary: str
    sha256: str | None = None
    text: str | None = None
    truncated: bool = False
    untracked: tuple[str, ...] = ()


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


def tree_diffs(trees: Iterable[GitTree]) -> list[TreeDiff]:
    """Of the trees that have anything beyond their commit."""
    return [diff for tree in trees if (diff := tree_diff(tree)) is not None]


def tree_diff(tree: GitTree) -> TreeDiff | None:
    """None for a tree with no changes to tracked files and no new Python files, and where git does not tell."""
    folder = Path(tree.path)
    if not folder.is_dir():
        return None
    untracked = _untracked(folder)
    if not tree.dirty:
        return TreeDiff(tree.path, tree.commit, "", untracked=untracked) if untracked else None
    plain = ("diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all", "HEAD")
    summary = _git(folder, *plain, "--stat=100") or ""
    whole = _told(folder, *plain, limit_bytes=_MOST_DIFF_BYTES)
    if whole is None:
        return TreeDiff(tree.path, tree.commit, summary, truncated=True, untracked=untracked)
    data = whole.encode(errors="replace")
    kept = data[:_KEPT_DIFF_BYTES]
    if len(kept) < len(data):
        kept = kept[: kept.rfind(b"\n") + 1]
    text = kept.decode(errors="ignore")
    digest = hashlib.sha256(data).hexdigest()
    return TreeDiff(tree.path, tree.commit, summary, digest, text, len(kept) < len(data), untracked)


def _untracked(folder: Path) -> tuple[str, ...]:
    """New files of code, which may take part; nothing else is looked for."""
    listed = _git(folder, "ls-files", "--others", "--exclude-standard", "--", "*.py", "*.cu", "*.cuh", "*.cpp", "*.so")
    return tuple((listed or "").splitlines()[:_MOST_UNTRACKED])


def _git(folder: Path, *words: str) -> str | None:
    told = _told(folder, *words)
    return None if told is None else told.strip()


def _told(folder: Path, *words: str, limit_bytes: int = 1 << 20) -> str | None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ran = run_bounded(
        [*_QUIET, *words], env={**env, "LC_ALL": "C"}, cwd=folder, timeout_s=_TIMEOUT_S, limit_bytes=limit_bytes
    )
    return None if ran.reason else ran.output
