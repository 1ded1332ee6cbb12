"""Which files below the folders may tell something: each once, without loops, without what is large and binary."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sitrepd.backfill.found import Passed

_FOLDERS = frozenset(
    (
        ".git", ".hg", ".svn", ".jj", "node_modules", "__pycache__", ".venv", "venv", "site-packages", ".tox", ".nox",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".ipynb_checkpoints", ".idea", ".vscode",
    )
)  # fmt: skip
_FOLDER_MARKS = ("pyvenv.cfg", "conda-meta", "sitrep.db")
_BEHIND = ("/proc", "/sys", "/dev")
_WEIGHTS = re.compile(
    r"\.(?:safetensors|bin|pt|pth|gguf|ggml|onnx|ckpt|npz|npy|h5|msgpack|engine|plan|distcp|model)$", re.IGNORECASE
)
_BINARY = re.compile(
    r"\.(?:so(?:\.[\d.]+)?|o|a|pyc|whl|zip|tar|tgz|tar\.\w+|7z|rar|zst|lz4|jar|deb|rpm|png|jpe?g|gif|webp|svg|ico|pdf"
    r"|mp[34]|wav|parquet|arrow|feather|db|sqlite3?(?:-\w+)?|nsys-rep|ncu-rep|ttf|woff2?|exe|dll|cubin|ptx|tfevents.*)$",
    re.IGNORECASE,
)
_SOURCE = re.compile(
    r"\.(?:py|pyi|ipynb|c|cc|cpp|cu|cuh|h|hpp|rs|go|js|mjs|ts|tsx|jsx|java|html?|css|ya?ml|toml|ini|cfg|conf|lock|xml"
    r"|tex|bib|patch|diff|rst|csv|tsv|sql|proto|j2|jinja|service|gitignore|dockerignore)$|^(?:Dockerfile|Makefile|LICENSE"
    r"|COPYING|tokenizer\.json|tokenizer_config\.json|vocab\.json|merges\.txt|.*\.index\.json)$",
    re.IGNORECASE,
)
_MOST_DEPTH = 64


@dataclass(frozen=True)
class Candidate:
    path: str
    size: int
    mtime: float
    identity: tuple[int, int]


@dataclass
class Walk:
    """`passed_over` counts by kind what was not even opened; `problems` are folders and files that cannot be read."""

    passed_over: Counter[str] = field(default_factory=Counter)
    problems: list[Passed] = field(default_factory=list)
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def files(self, folders: Sequence[str]) -> Iterator[Candidate]:
        """Regular files in the order of their names; a file that is linked several times comes once."""
        for folder in folders:
            yield from self._path(folder, 0)

    def _path(self, path: str, depth: int) -> Iterator[Candidate]:
        try:
            told = os.stat(path)
        except OSError as error:
            self.problems.append(Passed(path, f"cannot be read: {error.strerror}"))
            return
        identity = (told.st_dev, told.st_ino)
        if identity in self._seen:
            self.passed_over["links to what was read already"] += 1
            return
        if stat.S_ISDIR(told.st_mode):
            self._seen.add(identity)
            yield from self._folder(path, depth)
        elif not stat.S_ISREG(told.st_mode):
            self.passed_over["sockets, pipes and devices"] += 1
        elif depth and (kind := _kind(os.path.basename(path))):
            self.passed_over[kind] += 1
        else:
            self._seen.add(identity)
            yield Candidate(path, told.st_size, told.st_mtime, identity)

    def _folder(self, path: str, depth: int) -> Iterator[Candidate]:
        if depth > _MOST_DEPTH:
            self.problems.append(Passed(path, f"lies more than {_MOST_DEPTH} folders deep"))
            return
        try:
            names = sorted(os.listdir(path))
        except OSError as error:
            self.problems.append(Passed(path, f"cannot be read: {error.strerror}"))
            return
        if depth and any(mark in names for mark in _FOLDER_MARKS):
            self.passed_over["folders of installed programs and stores"] += 1
            return
        for name in names:
            below = os.path.join(path, name)
            if self._is_wanted(below, name):
                yield from self._path(below, depth + 1)

    def _is_wanted(self, path: str, name: str) -> bool:
        if name in _FOLDERS and os.path.isdir(path):
            self.passed_over["folders of version control, environments and caches"] += 1
            return False
        if os.path.islink(path) and os.path.isdir(path):
            target = os.path.realpath(path)
            upwards = f"{os.path.realpath(os.path.dirname(path))}/".startswith(f"{target.rstrip('/')}/")
            if upwards or target.startswith(_BEHIND):
                self.passed_over["links that lead upwards or to devices"] += 1
                return False
        return True


def _kind(name: str) -> str | None:
    """What a file is by its name alone, where that is enough to leave it closed."""
    plain = name.removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz")
    if _WEIGHTS.search(plain):
        return "model weights and checkpoints"
    if _BINARY.search(plain):
        return "binary files"
    return "source, configuration and documents" if _SOURCE.search(plain) else None


def writers() -> dict[tuple[int, int], int]:
    """Files that processes of this machine have open for writing, by device and inode, as far as may be seen."""
    found: dict[tuple[int, int], int] = {}
    for process in Path("/proc").glob("[0-9]*/fd"):
        pid = int(process.parent.name)
        try:
            names = os.listdir(process)
        except OSError:
            continue
        for name in names:
            _note_writer(found, process, name, pid)
    return found


def _note_writer(found: dict[tuple[int, int], int], folder: Path, name: str, pid: int) -> None:
    try:
        told = os.stat(folder / name)
        if not stat.S_ISREG(told.st_mode):
            return
        flags = (folder.parent / "fdinfo" / name).read_text().partition("flags:")[2].split(maxsplit=1)[0]
    except (OSError, IndexError):
        return
    if int(flags, 8) & os.O_ACCMODE != os.O_RDONLY:
        found.setdefault((told.st_dev, told.st_ino), pid)
