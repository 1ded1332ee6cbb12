from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sitrepd.stack.commands import Place, conda_prefix, project_environment, resolve, simple_commands

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[a-z]*")
_ISOLATING = re.compile(r"-[A-Za-z]*[IEsPS][A-Za-z]*")
_WITH_VALUE = {"-W", "-X", "--check-hash-based-pycs"}

# What runs the rest of its arguments on this machine, in this environment.
_WRAPPERS = {
    *("nohup", "numactl", "taskset", "nice", "ionice", "chrt", "setsid", "stdbuf", "unbuffer", "timeout", "time"),
    *(
        "exec",
        "command",
        "sudo",
        "doas",
        "systemd-run",
        "prlimit",
        "nsys",
        "ncu",
        "strace",
        "perf",
        "tini",
        "dumb-init",
    ),
    *(
        "catchsegv",
        "script",
        "rlwrap",
        "ccache",
        "chronic",
        "ts",
        "setarch",
        "gdb",
        "cuda-memcheck",
        "compute-sanitizer",
    ),
}
_ELSEWHERE = {"docker", "podman", "nerdctl", "kubectl", "apptainer", "singularity", "enroot", "srun", "ssh", "chroot"}
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh"}
_RUNNERS = {*_WRAPPERS, *_SHELLS, "env", "conda", "mamba", "micromamba", "uv"}
_MOST_LAYERS = 12
_SCRIPT_BYTES = 65536


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Which Python a command starts, with what it would see; `path` is None where `reason` says why."""

    path: str | None
    reason: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = "/"
    options: tuple[str, ...] = ()
    first_path: str | None = None


def interpreter_of(argv: Sequence[str], env: Mapping[str, str], cwd: str | Path) -> str | None:
    """The path as the command names it, unresolved, since a virtual environment is known by its link alone."""
    return find_interpreter(argv, env, cwd).path


def find_interpreter(argv: Sequence[str], env: Mapping[str, str], cwd: str | Path) -> Interpreter:
    """Looks through wrappers, shells and console scripts; reads files, starts nothing."""
    place = Place(dict(env), os.path.abspath(cwd))
    return _find(list(argv), place, _MOST_LAYERS)


def is_python(path: str) -> bool:
    """By the name of the file."""
    return _PYTHON.fullmatch(os.path.basename(path)) is not None


def python_at(path: str, rest: Sequence[str], env: Mapping[str, str], cwd: str | Path) -> Interpreter:
    """This one, run with the rest of the words of its command line."""
    return _python(path, list(rest), Place(dict(env), os.path.abspath(cwd)))


def _find(argv: list[str], place: Place, layers: int) -> Interpreter:
    if not argv or layers == 0:
        return _nothing(place, "the command names no Python interpreter")
    name = os.path.basename(argv[0])
    if name in _ELSEWHERE:
        return _nothing(place, f"{name} runs the command elsewhere, where its packages cannot be asked")
    if name == "env":
        return _find(*_after_env(argv, place), layers - 1)
    if name in _SHELLS:
        return _in_shell(argv, place, layers - 1)
    if name in ("conda", "mamba", "micromamba") and "run" in argv[:3]:
        return _in_conda(argv, place, layers - 1)
    if name == "uv" and "run" in argv:
        return _in_uv(argv, place, layers - 1)
    if name in _WRAPPERS:
        return _first_known(argv[1:], place, layers - 1) or _nothing(place, f"{name} is given no Python interpreter")
    return _started(argv, place, layers - 1)


def _started(argv: list[str], place: Place, layers: int) -> Interpreter:
    path = resolve(argv[0], place)
    if path is None:
        return _nothing(place, f"{argv[0]} was not found{_where(argv[0])}")
    if _PYTHON.fullmatch(os.path.basename(path)):
        return _python(path, argv[1:], place)
    first, rest = shebang(path)
    if not first:
        return _nothing(place, f"{path} is not a Python program")
    shell = next((word for word in first if os.path.basename(word) in _SHELLS), None)
    if shell is not None:
        sibling = _sibling_python(path, rest)
        return _python(sibling, [path], place) if sibling else _in_shell([shell, path], place, layers)
    return _find([*first, path], place, layers)


def _python(path: str, rest: list[str], place: Place) -> Interpreter:
    options: list[str] = []
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] not in ("-", "-c", "-m"):
        if _ISOLATING.fullmatch(rest[at]):
            options.append(rest[at])
        at += 2 if rest[at] in _WITH_VALUE else 1
    safe = any(letter in option for option in options for letter in "IP") or place.env.get("PYTHONSAFEPATH")
    first = None if safe else _first_path(rest[at:], place)
    if not os.access(path, os.X_OK):
        return _nothing(place, f"{path} was not found")
    return Interpreter(path, None, place.env, place.cwd, tuple(options), first)


def _first_path(rest: list[str], place: Place) -> str | None:
    """What Python puts at the front of sys.path: the script's folder, or the working directory."""
    if rest and rest[0] not in ("-", "-c", "-m") and not rest[0].startswith("-m"):
        return os.path.dirname(os.path.realpath(os.path.join(place.cwd, rest[0])))
    return place.cwd


def _first_known(argv: list[str], place: Place, layers: int) -> Interpreter | None:
    """The command inside a wrapper: its first argument that is Python, a script, a shell or another wrapper."""
    for at, token in enumerate(argv):
        name = os.path.basename(token)
        if _PYTHON.fullmatch(name) or name in _ELSEWHERE:
            return _find(argv[at:], place, layers)
        path = None if token.startswith("-") else resolve(token, place)
        if path is not None and (name in _RUNNERS or shebang(path)[0]):
            return _find(argv[at:], place, layers)
    return None


def shebang(path: str) -> tuple[list[str], str]:
    """(the words after #!, what follows that line); empty for a binary or an unreadable file."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return [], ""
    if not head.startswith(b"#!"):
        return [], ""
    line, _, rest = head[2:].decode(errors="replace").partition("\n")
    words = line.split()
    if words and os.path.basename(words[0]) == "env":
        words = ["env", *words[1:]]
    return words, rest


def _sibling_python(path: str, rest: str) -> str | None:
    """The Python of a console script that is a shell script first: a shebang too long for the kernel, or a shim."""
    line = rest.lstrip().partition("\n")[0]
    if match := re.match(r"""'''exec' (?:"([^"$]+)"|(/\S+)) """, line):
        return match[1] or match[2]
    if match := re.match(r"""'''exec' "\$\(dirname.*?/'?(\w[\w.]*)'? """, line):
        return os.path.join(os.path.dirname(os.path.realpath(path)), match[1])
    return os.path.join(os.path.dirname(path), "python") if "pyenv" in rest and "/shims/" in path else None


def _after_env(argv: list[str], place: Place) -> tuple[list[str], Place]:
    """env(1): -i, -u NAME, -C FOLDER, -S TEXT, then assignments, then the command."""
    env, cwd, at = dict(place.env), place.cwd, 1
    while at < len(argv):
        word = argv[at]
        if word in ("-u", "--unset"):
            at += 1
            env.pop(argv[at] if at < len(argv) else "", None)
        elif word in ("-C", "--chdir"):
            at += 1
            cwd = os.path.join(cwd, argv[at] if at < len(argv) else "")
        elif word in ("-i", "-", "--ignore-environment"):
            env = {}
        elif word.startswith(("-S", "--split-string")):
            text = word[2:] if word[2:] and not word.startswith("--") else ""
            argv = [*argv[: at + 1], *text.split(), *argv[at + 1 :]]
        elif "=" in word and not word.startswith("-"):
            name, _, value = word.partition("=")
            env[name] = value
        elif not word.startswith("-"):
            break
        at += 1
    return argv[at:], Place(env, cwd)


def _in_shell(argv: list[str], place: Place, layers: int) -> Interpreter:
    words = [word for word in argv[1:] if not re.fullmatch(r"[-+](?!.*c)\w+|--\w+", word)]
    if not words:
        return _nothing(place, f"{argv[0]} is given no command")
    if words[0].startswith("-"):
        text, named = " ".join(words[1:2]), "the shell command"
    else:
        named = os.path.join(place.cwd, words[0])
        try:
            with open(named, errors="replace") as file:
                text = file.read(_SCRIPT_BYTES)
        except OSError:
            return _nothing(place, f"{named} cannot be read")
    missing = None
    for command, there in simple_commands(text, place):
        found = _find(command, there, layers)
        if found.path is not None:
            return found
        if _PYTHON.fullmatch(os.path.basename(command[0])) or os.path.basename(command[0]) in _ELSEWHERE:
            missing = missing or found
    return missing or _nothing(place, f"{named} names no Python interpreter that is found")


def _in_conda(argv: list[str], place: Place, layers: int) -> Interpreter:
    """conda run -n NAME, or -p FOLDER."""
    rest = argv[argv.index("run") + 1 :]
    prefix = conda_prefix(argv[0], _option(rest, "-n", "--name"), _option(rest, "-p", "--prefix"), place)
    if prefix is None:
        return _nothing(place, "the environment that conda is to run in was not found")
    return _first_known(rest, place.inside(prefix, "CONDA_PREFIX"), layers) or _nothing(
        place, "conda run is given no Python interpreter"
    )


def _in_uv(argv: list[str], place: Place, layers: int) -> Interpreter:
    rest = argv[argv.index("run") + 1 :]
    folder = os.path.join(place.cwd, _option(argv[1:], "--directory", "--project") or "")
    prefix = project_environment(folder, place, active="--active" in rest)
    if prefix is None:
        return _nothing(place, f"uv has no environment for {folder} yet")
    inside = place.inside(prefix, "VIRTUAL_ENV")
    return _first_known(rest, inside, layers) or _python(os.path.join(prefix, "bin", "python"), [], inside)


def _option(words: Sequence[str], *names: str) -> str | None:
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(words[at + 1 : at + 2]), None)
    return None


def _where(word: str) -> str:
    return "" if "/" in word else " on the PATH of the launch"


def _nothing(place: Place, reason: str) -> Interpreter:
    return Interpreter(None, f"the packages are not known: {reason}", place.env, place.cwd)
