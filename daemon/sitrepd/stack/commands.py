from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_SEPARATORS = {"&&", "||", ";", "&", "|", "|&", ";;", "(", ")", "\n"}
_LEADING = {"then", "do", "else", "if", "while", "!", "{", "("}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a command runs: its environment and its working directory."""

    env: Mapping[str, str]
    cwd: str

    def inside(self, prefix: str, name: str) -> Place:
        """As after activating the environment at the prefix."""
        path = os.path.join(prefix, "bin") + os.pathsep + self.env.get("PATH", os.defpath)
        return replace(self, env={**self.env, "PATH": path, name: prefix})


def resolve(word: str, place: Place) -> str | None:
    """The executable file that the word names, as execvp would find it, links not followed."""
    if "/" in word:
        path = os.path.join(place.cwd, word)
        return os.path.normpath(path) if _executable(path) else None
    for folder in place.env.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(place.cwd, folder, word)
        if _executable(path):
            return path
    return None


def simple_commands(text: str, place: Place) -> Iterator[tuple[list[str], Place]]:
    """Each simple command of a shell text, with the place that the cd, export and activate before it made."""
    for line in text.replace("\\\n", " ").splitlines():
        for words in _split(line, place):
            command, there = _after_assignments(words, place)
            if not command:
                place = there
            elif command[0] in ("export", "declare", "cd", "pushd", "source", ".", "conda", "mamba", "micromamba"):
                changed = _changed(command, place)
                if changed is None:
                    yield command, there
                place = changed or place
            else:
                yield command, there


def conda_prefix(conda: str, name: str | None, prefix: str | None, place: Place) -> str | None:
    """The folder of a conda environment by its name, or of the base environment."""
    if prefix is not None:
        return os.path.join(place.cwd, prefix)
    if name is not None and "/" in name:
        return os.path.join(place.cwd, name)
    bases = _conda_bases(conda, place.env)
    if name in (None, "base"):
        return next((base for base in bases if os.path.isdir(base)), None)
    folders = [
        *place.env.get("CONDA_ENVS_PATH", place.env.get("CONDA_ENVS_DIRS", "")).split(os.pathsep),
        *(os.path.join(base, "envs") for base in bases),
        os.path.join(_home(place.env), ".conda", "envs"),
    ]
    known = [os.path.join(folder, str(name)) for folder in folders if folder]
    return next((path for path in [*known, *_listed(place.env, str(name))] if os.path.isdir(path)), None)


def project_environment(folder: str, place: Place, *, active: bool) -> str | None:
    """Where uv keeps the environment of the project that holds the folder."""
    if active and "VIRTUAL_ENV" in place.env:
        return place.env["VIRTUAL_ENV"]
    for above in (Path(folder), *Path(folder).parents):
        candidate = above / place.env.get("UV_PROJECT_ENVIRONMENT", ".venv")
        if (candidate / "bin" / "python").exists():
            return str(candidate)
    return None


def _split(line: str, place: Place) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    try:
        for token in lexer:
            if token in _SEPARATORS:
                commands.append([])
            elif commands[-1] or token not in _LEADING:
                commands[-1].append(_expanded(token, place.env))
    except ValueError:
        return [words for words in commands if words][:-1]
    return [words for words in commands if words]


def _after_assignments(words: list[str], place: Place) -> tuple[list[str], Place]:
    env = dict(place.env)
    while words and _ASSIGNMENT.match(words[0]):
        name, _, value = words[0].partition("=")
        env[name] = _expanded(value, env)
        words = words[1:]
    return words, replace(place, env=env)


def _changed(command: list[str], place: Place) -> Place | None:
    """The place after a command that changes it; None for one that runs something."""
    rest = [word for word in command[1:] if not word.startswith("-")]
    if command[0] in ("cd", "pushd"):
        return replace(place, cwd=os.path.normpath(os.path.join(place.cwd, rest[0] if rest else _home(place.env))))
    if command[0] in ("export", "declare"):
        return _after_assignments([word for word in rest if "=" in word], place)[1]
    if command[0] in ("source", "."):
        return _activated(rest, place)
    if rest[:1] == ["activate"]:
        prefix = conda_prefix(command[0], next(iter(rest[1:2]), None), None, place)
        return place.inside(prefix, "CONDA_PREFIX") if prefix else place
    return None


def _activated(rest: list[str], place: Place) -> Place:
    """After `source …/bin/activate`, of a virtual environment, or with a name after it, of conda."""
    script = os.path.join(place.cwd, rest[0]) if rest else ""
    if os.path.basename(script) != "activate":
        return place
    base = os.path.dirname(os.path.dirname(script))
    if len(rest) == 1:
        return place.inside(base, "VIRTUAL_ENV")
    prefix = conda_prefix(os.path.join(base, "bin", "conda"), rest[1], None, place)
    return place.inside(prefix, "CONDA_PREFIX") if prefix else place


def _expanded(text: str, env: Mapping[str, str]) -> str:
    if text == "~" or text.startswith("~/"):
        text = _home(env) + text[1:]
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2], match[0]), text)


def _conda_bases(conda: str, env: Mapping[str, str]) -> list[str]:
    found = resolve(conda, Place(env, "/"))
    beside = conda if os.path.isabs(conda) else None
    told = [beside, env.get("CONDA_EXE"), os.path.realpath(found) if found else None]
    bases = [os.path.dirname(os.path.dirname(path)) for path in told if path]
    root = env.get("MAMBA_ROOT_PREFIX")
    usual = [os.path.join(_home(env), name) for name in ("miniconda3", "miniforge3", "anaconda3", "mambaforge")]
    return [*([root] if root else []), *bases, *usual]


def _listed(env: Mapping[str, str], name: str) -> list[str]:
    """conda writes every environment that it makes into this file of the user's."""
    try:
        lines = Path(_home(env), ".conda", "environments.txt").read_text().splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if os.path.basename(line.strip()) == name]


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def _executable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)
