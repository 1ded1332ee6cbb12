"""What a process is, by its own words: a server, a rank of one, a benchmark.

A shell, timeout or editor that only has a server's command among its arguments is none: the program itself counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

Kind = Literal["sglang", "vllm", "llama.cpp"]

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*[td]?")
_MODULE = re.compile(r"-[a-zA-Z]*m")
_CODE = re.compile(r"-[a-zA-Z]*c")
_TITLE = re.compile(r"(sglang|vllm)::(\S+)", re.IGNORECASE)
_MAIN_TITLE = re.compile(r"(?:http|api|launch)_?server\b", re.IGNORECASE)
_INTEREST = ("sglang", "vllm", "VLLM", "llama-server", "bench", "perf", "multiprocessing.")
_SPAWNED = ("from multiprocessing.spawn", "from multiprocessing.forkserver")
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_MODULES: dict[str, Kind] = {"sglang.launch_server": "sglang"}
_SERVING: dict[str, Kind] = {
    "sglang": "sglang", "sglang.cli": "sglang", "sglang.cli.main": "sglang", "vllm": "vllm",
    "vllm.entrypoints.cli.main": "vllm", "vllm.cli": "vllm",
}  # fmt: skip
_BENCHMARKS = frozenset({
    "sglang.bench_serving", "sglang.bench_one_batch_server", "sglang.benchmark.serving", "bench_serving",
    "benchmark_serving", "bench_one_batch_server", "bench_eagle3", "benchmark_throughput", "genai-perf", "aiperf",
})  # fmt: skip
_BENCH_VERBS = {"vllm": "bench", "guidellm": "benchmark", "evalscope": "perf"}


@dataclass(frozen=True, slots=True)
class Program:
    """What a process runs: a module, script or program by name, and the arguments behind it."""

    name: str
    how: Literal["module", "script", "program"]
    arguments: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """The name without folder and `.py`; dots of a module stay."""
        return self.name if self.how == "module" else PurePosixPath(self.name).name.removesuffix(".py")


def is_of_interest(argv: Sequence[str]) -> bool:
    """A quick look, which nearly all processes of a machine do not pass."""
    text = "\0".join(argv)
    return any(part in text for part in _INTEREST)


def is_python(argv: Sequence[str]) -> bool:
    return bool(argv) and _PYTHON.fullmatch(argv[0].rpartition("/")[2]) is not None


def program_of(argv: Sequence[str]) -> Program | None:
    """None where there are no words, or Python runs code that it was given (`-c`)."""
    if not argv or not argv[0]:
        return None
    if not is_python(argv):
        return Program(argv[0], "program", tuple(argv[1:]))
    place = 1
    while place < len(argv):
        word, rest = argv[place], tuple(argv[place + 1 :])
        if _MODULE.fullmatch(word):
            return Program(rest[0], "module", rest[1:]) if rest else None
        if word.startswith("-m"):
            return Program(word[2:], "module", rest)
        if _CODE.fullmatch(word) or word == "-":
            return None
        if not word.startswith("-"):
            return Program(word, "script", rest)
        place += 2 if word in _WITH_VALUE else 1
    return None


def server_kind(argv: Sequence[str]) -> Kind | None:
    """Which kind of server these are the words of, if of one."""
    program = program_of(argv)
    if program is None:
        return _main_title(argv)
    if program.how == "module":
        return _by_module(program.name, program.arguments)
    path = PurePosixPath(program.name)
    if program.how == "script" and path.parts[-2:] == ("sglang", "launch_server.py"):
        return "sglang"
    if program.how == "script" and "vllm/entrypoints/" in program.name:
        return _by_module(program.name[program.name.rindex("vllm/") :].removesuffix(".py").replace("/", "."), ())
    if path.name in ("sglang", "vllm") and program.arguments[:1] == ("serve",):
        return _SERVING[path.name]
    if program.how == "program":
        return "llama.cpp" if path.name == "llama-server" else _main_title(argv)
    return None


def _by_module(name: str, arguments: tuple[str, ...]) -> Kind | None:
    if name in _SERVING:
        return _SERVING[name] if arguments[:1] == ("serve",) else None
    if name.startswith("vllm.entrypoints.") and name.endswith(("server", "launcher")):
        return "vllm"
    return _MODULES.get(name)


def _main_title(argv: Sequence[str]) -> Kind | None:
    """A main process that has given itself a title has lost its words."""
    title = rank_title(argv)
    return _family(title) if title and _MAIN_TITLE.search(title) else None


def _family(title: str) -> Kind:
    return "sglang" if title.lower().startswith("sglang") else "vllm"


def rank_title(argv: Sequence[str]) -> str | None:
    """The title of a server's worker, such as `sglang::scheduler_TP0` or `VLLM::EngineCore`."""
    found = _TITLE.match(argv[0]) if argv else None
    return found[0] if found else None


def rank_kind(title: str) -> Kind:
    return _family(title)


def is_spawned(argv: Sequence[str]) -> bool:
    """A child that Python's multiprocessing started, before it gives itself a title (or without one)."""
    return is_python(argv) and any(word.startswith(_SPAWNED) for word in argv)


def benchmark_name(argv: Sequence[str]) -> str | None:
    """The benchmark that a process runs, such as `sglang.bench_serving`."""
    program = program_of(argv)
    if program is None:
        return None
    stem = program.stem
    if stem in _BENCHMARKS:
        return stem
    if stem in _BENCH_VERBS and program.arguments[:1] == (_BENCH_VERBS[stem],):
        return f"{stem} {program.arguments[0]}"
    return None
