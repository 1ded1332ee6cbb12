"""How fast secrets are looked for, in what servers print and in the results of a benchmark."""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.perf.measure import Figure, benchmark, median

from sitrepd.redact import redact_text

_DATA = Path(__file__).parent.parent / "data"
_ROUNDS = 5
_SHAPES = (
    r"(hf|gh[pousr]|npm|sk_live)_[A-Za-z0-9]{20,}|sk-(ant|proj)-[A-Za-z0-9_-]{16,}|AKIA[A-Z0-9]{16}|api_key.{1,3}['\"]"
)


def _seconds(run: Callable[[], object]) -> float:
    """Of a processor, in this process and those that it waited for."""
    before = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    run()
    after = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime for a, b in zip(before, after, strict=True))


@benchmark("redact_mb_per_s", "redact_result_ms")
def redaction() -> Iterator[Figure]:
    """Line by line, as logs are read, in turns with grep for a few of the shapes; and whole results of bench_serving."""
    lines = [
        line
        for path in sorted((_DATA / "logs").glob("*.log"))
        for line in path.read_text(errors="replace").splitlines()
    ]
    lines *= 4
    size = sum(map(len, lines)) / 1e6
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(lines))
        file.flush()
        grep = ["grep", "-cE", _SHAPES, file.name]
        rounds = [
            (
                _seconds(lambda: [redact_text(line) for line in lines]),
                _seconds(lambda: subprocess.run(grep, stdout=subprocess.DEVNULL, check=False)),
            )
            for _ in range(_ROUNDS)
        ]
    ours, theirs = (size / max(median([one[place] for one in rounds]), 1e-6) for place in (0, 1))
    peer = f"grep -cE for a few of them {theirs:.0f} MB/s"
    yield Figure("redact_mb_per_s", ours, "MB/s of one core", peer, ours / theirs, note="more than servers print")
    from sitrepd.benchmarks.parsers import read_results

    result = (_DATA / "bench" / "sglang-0.5.16-eagle3-3-steps.jsonl").read_bytes()
    times = []
    for _ in range(20):
        began = time.process_time()
        read_results(result, "result.jsonl")
        times.append((time.process_time() - began) * 1e3)
    yield Figure(
        "redact_result_ms",
        median(times),
        "ms",
        note="a result with all settings of its server, read and free of secrets",
    )
