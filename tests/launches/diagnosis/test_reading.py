"""Logs of any size and content are read, quickly and with the right numbers of lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.prefixes import split
from sitrepd.launches.diagnosis.source import opened

DECODE = (
    "[2026-11-02 10:00:52 TP0] Decode batch, #running-req: 1, #token: 600, token usage: 0.01, cuda graph: True, "
    "gen throughput (token/s): 88.80, #queue-req: 0\n"
)
HIT = (
    "[2026-11-02 10:01:11 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    '  File "/x/sglang/srt/managers/scheduler.py", line 3, in event_loop_overlap\n'
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n\n"
)
READY = "[2026-11-02 10:00:33] The server is fired up and ready to roll!\n"


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100 MB of a server that served for days, failed in the middle, and whose other ranks talked on."""
    path = tmp_path_factory.mktemp("huge") / "server.log"
    block = DECODE * 5000
    with path.open("w") as file:
        file.write(READY)
        for _ in range(70):
            file.write(block)
        file.write(HIT)
        for _ in range(70):
            file.write(block)
    return path


@pytest.mark.slow
def test_cause_in_the_middle_of_a_huge_log_is_found(huge: Path) -> None:
    assert huge.stat().st_size > 100_000_000
    told = diagnose(huge)
    assert told.category == "cuda_illegal_memory"
    assert [one.line for one in told.evidence] == [1 + 70 * 5000 + 3]


def test_memory_is_bounded(huge: Path) -> None:
    tracemalloc.start()
    with opened(huge) as lines:
        for _ in lines:
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16_000_000


def test_noise_and_endless_lines_are_survived(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(os.urandom(1 << 20) + b"\n")
        file.write(b"x" * (20 << 20) + b"\n")
        file.write(b"\r".join(b"Multi-thread loading shards: %d%%" % n for n in range(100)) + b"\n")
        file.write(HIT.encode())
        file.write(b"\xff\xfe\0\0" * 100)
    before = sum(chunk.count(b"\n") for chunk in [path.read_bytes().split(b"[2026-11-02 10:01:11")[0]])
    told = diagnose(path)
    assert (told.category, told.evidence[0].line) == ("cuda_illegal_memory", before + 3)


def test_lines_are_counted_by_line_feeds() -> None:
    told = diagnose(io.BytesIO(b"a\rb\rc\r\n\n" + HIT.encode()))
    assert told.evidence[0].line == 5
    same = diagnose(["a\rb\rc", "", *HIT.splitlines()])
    assert same.evidence[0].line == 5


def test_empty_log_has_not_failed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch()
    told = diagnose(path)
    assert (told.state, told.category, told.evidence) == ("starting", None, ())


def test_log_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        diagnose("/nowhere/at/all.log")


def test_only_what_this_launch_wrote_counts(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(HIT + READY)
    assert diagnose(path).category == "cuda_illegal_memory"
    told = diagnose(path, begin=len(HIT))
    assert (told.state, told.category, told.evidence[0].line) == ("ready", None, 5)


def test_earlier_server_in_the_same_log_is_over() -> None:
    start = "[2026-11-02 11:00:01] server_args=ServerArgs(model_path='/m', port=30000)"
    first = [start, *HIT.splitlines(), "[2026-11-02 10:01:12] Received sigquit from a child process."]
    assert diagnose(first).category == "cuda_illegal_memory"
    again = diagnose([*first, start, "[2026-11-02 11:00:06 TP0] Load weight begin. avail mem=93.10 GB"])
    assert (again.state, again.category) == ("loading", None)


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        ("[2026-11-02 10:00:00 DP1 TP3] Load", "DP1 TP3", "Load"),
        ("[TP3] Load", "TP3", "Load"),
        ("(EngineCore_DP0 pid=2) ERROR 10-25 13:08:43 [core.py:708]   File", "EngineCore_DP0 pid=2", "  File"),
        ("vllm-1  | ERROR 11-18 18:07:28 engine.py:366]     raise", "", "    raise"),
        ("[rank0]:   File", "rank0", "  File"),
        ("[rank3]:[E1102 02:07:08.408271257 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog", "rank3", "[Rank 3] Watchdog"),
        ('{"log":"Killed\\n","stream":"stderr","time":"2026-11-02T10:00:00Z"}', "", "Killed"),
        ("\x1b[31mERROR:    [Errno 98]\x1b[0m", "", "[Errno 98]"),
        ("2026-11-02 10:00:00,123 - ERROR - sglang.srt: broken", "", "broken"),
    ],
)
def test_prefixes(line: str, key: str, text: str) -> None:
    told = split(line)
    assert (told.key, told.text) == (key, text)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gzip", "bzip2", "xz"])
def test_packed_logs_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    packed = pack((READY + HIT).encode())
    path = tmp_path / "server.log.packed"
    path.write_bytes(packed)
    assert diagnose(path).category == diagnose(io.BytesIO(packed)).category == "cuda_illegal_memory"


def test_of_a_packed_log_that_is_cut_what_is_there_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress((READY + HIT + os.urandom(40_000).hex()).encode())[:-9000])
    assert diagnose(path).category == "cuda_illegal_memory"
    path.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(OSError, match="cannot be unpacked"):
        diagnose(path)
