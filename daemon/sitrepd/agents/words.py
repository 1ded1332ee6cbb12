"""What a shell command does, by the programs that it runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from sitrepd.agents.models import CommandKind
from sitrepd.launches.discovery.words import benchmark_name, program_of, server_kind

_ENDS = frozenset({";", "&", "&&", "|", "||", "|&", "(", ")", "\n", "{", "}"})
_ASSIGNED = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECTED = re.compile(r"\d*[<>]")
# Programs that run another one, and how many words of their own come before it, options aside.
_WRAPPERS = {
    "nohup": 0, "env": 0, "time": 0, "setsid": 0, "exec": 0, "sudo": 0, "stdbuf": 0, "nice": 0, "ionice": 0,
    "command": 0, "timeout": 1, "taskset": 1, "numactl": 0, "then": 0, "do": 0, "else": 0, "!": 0, "chrt": 1,
}  # fmt: skip
_WITH_VALUE = {"-n", "-k", "-s", "-u", "-i", "-o", "-e", "--cpunodebind", "--membind", "-c", "--signal", "--with"}
_ELSEWHERE = ("ssh", "docker", "podman", "nerdctl", "srun", "kubectl", "apptainer", "singularity", "enroot")
# The text of a here-document is written somewhere, and not run.
_HERE = re.compile(r"(?<!<)<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2$", re.DOTALL | re.MULTILINE)
_GIVEN = re.compile(r"-[a-z]*c")
_SHELLS = ("bash", "sh", "zsh", "dash")
_TRAINING = ("torchrun", "deepspeed", "accelerate", "torch.distributed.run", "torch.distributed.launch")
_PROFILE = ("nsys", "ncu", "py-spy", "perf", "rocprof", "rocprofv3", "sglang.profiler", "sglang.bench_one_batch")
_INSTALL = {
    "pip": ("install", "uninstall"), "pip3": ("install", "uninstall"), "conda": ("install", "create", "update"),
    "mamba": ("install", "create", "update"), "apt-get": ("install", "remove"), "apt": ("install", "remove"),
    "git": ("checkout", "switch", "pull", "apply", "am", "cherry-pick", "reset", "merge", "rebase"),
    "docker": ("pull", "build"), "podman": ("pull", "build"), "uv": ("sync", "add", "remove"), "cmake": (), "make": (),
    "ninja": (), "nvidia-smi": ("-pm", "-pl", "-lgc", "-rgc", "-mig", "-ac"), "huggingface-cli": ("download",),
    "hf": ("download",),
}  # fmt: skip
_RANK: tuple[CommandKind, ...] = ("server", "benchmark", "training", "profile", "install")


def kind_of(command: str) -> CommandKind:
    """The weightiest thing that a command line does; `other` where it is none of note, or no shell."""
    found = {_kind(argv) for argv in programs(command)}
    return next((kind for kind in _RANK if kind in found), "other")


def programs(command: str) -> Iterator[tuple[str, ...]]:
    """The words of each program that a line runs, without assignments, wrappers and redirections."""
    for words in _simple(command):
        argv = _unwrapped(words)
        name = PurePosixPath(argv[0]).name if argv else ""
        given = next((at for at, word in enumerate(argv[:-1]) if _GIVEN.fullmatch(word)), 0)
        if name in _SHELLS and given:
            yield from programs(argv[given + 1])
        elif name in _ELSEWHERE:
            yield from _elsewhere(argv)
        elif argv:
            yield tuple(argv)


def _elsewhere(argv: list[str]) -> Iterator[tuple[str, ...]]:
    """What runs on another machine or in a container: a line in one word, or the words from some place on."""
    for at in range(1, len(argv)):
        if " " in argv[at] and not argv[at].startswith("-"):
            yield from programs(argv[at])
        elif _kind(argv[at:]) in ("server", "benchmark"):
            yield tuple(argv[at:])
            return
    yield tuple(argv)


def _simple(command: str) -> Iterator[list[str]]:
    command = _HERE.sub(r"\3", command)
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    try:
        for word in lexer:
            if word in _ENDS or set(word) <= set(";&|()"):
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:  # a quote without its other half: no shell takes it either
        return
    yield words


def _unwrapped(words: list[str]) -> list[str]:
    rest = _without_redirections(words)
    while rest:
        name = PurePosixPath(rest[0]).name
        if _ASSIGNED.match(rest[0]):
            rest = rest[1:]
        elif name in _WRAPPERS:
            rest = _after_options(rest[1:])[_WRAPPERS[name] :]
        elif name in ("uv", "poetry", "pipenv", "conda", "mamba") and rest[1:2] == ["run"]:
            rest = _after_options(rest[2:])
        else:
            break
    return rest


def _after_options(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in _WITH_VALUE else 1
    return words[at:]


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif _REDIRECTED.match(word):
            skip = word.rstrip("&").endswith((">", "<")) and word[-1] in "<>"
        else:
            kept.append(word)
    return kept


def _kind(argv: Sequence[str]) -> CommandKind:
    if server_kind(argv):
        return "server"
    if benchmark_name(argv):
        return "benchmark"
    program = program_of(argv)
    if program is None:
        return "other"
    if program.stem in _TRAINING or re.search(r"(?:^|[_/])(?:train|finetune)", program.stem):
        return "training"
    if program.stem in _PROFILE:
        return "profile"
    return "install" if _installs(program.stem, program.arguments) else "other"


def _installs(name: str, arguments: Sequence[str]) -> bool:
    if name == "uv" and arguments[:1] == ("pip",):
        name, arguments = "pip", arguments[1:]
    verbs = _INSTALL.get(name)
    return verbs is not None and (not verbs or any(word in verbs for word in arguments[:3]))
