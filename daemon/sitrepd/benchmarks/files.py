"""Where a benchmark that runs will write its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

_OPTIONS = ("--output-file", "--output_file", "--result-filename", "--save-path")
_BACKENDS = ("sglang", "vllm", "lmdeploy", "trt", "gserver", "truss", "openai", "sglang-oai")


def result_files(argv: Sequence[str], folder: Path) -> list[Path]:
    """The file that its words name, else those in its folder by the names that `bench_serving` gives; all exist."""
    told = [folder / name for name in _told(argv)]
    if told:
        return [path for path in told if _is_file(path)]
    if not any("bench" in word for word in argv):
        return []
    return [path for path in _unnamed(folder) if _is_file(path)]


def _told(argv: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(argv):
        name, equals, value = word.partition("=")
        if name in _OPTIONS:
            if equals:
                yield value
            elif at + 1 < len(argv):
                yield argv[at + 1]


def _unnamed(folder: Path) -> list[Path]:
    """`sglang_1201_24_random-ids.jsonl`: backend, day, prompts, data set."""
    try:
        return sorted(path for backend in _BACKENDS for path in folder.glob(f"{backend}_[0-9][0-9][0-9][0-9]_*.jsonl"))
    except OSError:
        return []


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
