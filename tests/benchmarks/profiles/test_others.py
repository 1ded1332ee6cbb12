"""Nsight's tables and databases, what SGLang says of its steps, and two profiles side by side."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sitrepd.benchmarks.profiles.differences import differences
from sitrepd.benchmarks.profiles.found import Found, Phase, ProfileError
from sitrepd.benchmarks.profiles.printed import printed_phases
from sitrepd.benchmarks.profiles.reading import read_profile

LOGS = Path(__file__).parents[2] / "data" / "logs"
SUMMARY = """Generating SQLite file report.sqlite from report.nsys-rep
Processing [report.sqlite] with [cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,6000000,60,100000.0,99000.0,90000,120000,500.0,"void cutlass::Kernel2<a, b>(cutlass::Params)"
25.0,2000000,20,100000.0,99000.0,90000,120000,500.0,ncclDevKernel_AllReduce

Processing [report.sqlite] with [cuda_api_sum.py]...
Time (%),Total Time (ns),Num Calls,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
100.0,"1,500,000",80,18750.0,18000.0,1,9,2.0,cudaLaunchKernel

Time (%),Total Time (us),Count,Avg (us),Operation
100.0,500.5,10,50.05,[CUDA memcpy Host-to-Device]
"""


def read(tmp_path: Path, text: str, name: str) -> Found:
    path = tmp_path / name
    path.write_text(text)
    return read_profile(path, name)


def phases(found: Found, group: str | None) -> dict[str, Phase]:
    return {phase.name: phase for phase in found.phases if phase.group == group}


def test_the_tables_of_nsys_stats(tmp_path: Path) -> None:
    found = read(tmp_path, SUMMARY, "stats.csv")
    kernels = phases(found, "GPU kernels")
    gemm = kernels["cutlass::Kernel2<a, b>"]
    assert (gemm.calls, gemm.total_ms, gemm.mean_ms, gemm.share) == (60, 6.0, 0.1, 75.0)
    assert phases(found, "CUDA calls on the CPU")["cudaLaunchKernel"].total_ms == 1.5
    assert phases(found, "GPU memory operations")["[CUDA memcpy Host-to-Device]"].mean_ms == pytest.approx(0.05005)
    assert {name: one.share for name, one in phases(found, "GPU by category").items()} == {
        "matrix products": 75.0, "communication": 25.0,
    }  # fmt: skip
    assert found.note == "Times are summed: what ran at once counts twice."


def test_an_exported_database_of_nsight(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(
            """CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringIds VALUES (1, 'void gemm<1>(int)'), (2, 'cudaGraphLaunch_v10000'), (3, 'verify');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, streamId, demangledName, shortName);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 100000, 0, 7, 1, 1), (50000, 150000, 0, 8, 1, 1),
                (90000, NULL, 0, 7, 1, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end, deviceId, streamId, copyKind, bytes);
            INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (150000, 160000, 0, 7, 1, 4);
            CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start, end, deviceId, streamId);
            CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId, streamId, graphId);
            INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (200000, 400000, 0, 7, 5);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, nameId, globalTid);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 40000, 2, 1);
            CREATE TABLE NVTX_EVENTS (start, end, eventType, text, textId);
            INSERT INTO NVTX_EVENTS VALUES (0, 300000, 59, NULL, 3), (0, NULL, 34, 'mark', NULL);"""
        )
    found = read_profile(path, "report.sqlite")
    whole = phases(found, "whole")
    assert whole["wall time"].total_ms == pytest.approx(0.4)
    assert whole["GPU busy"].total_ms == pytest.approx(0.36)
    gemm = phases(found, "GPU kernels")["gemm<1>"]
    assert (gemm.calls, gemm.total_ms, gemm.mean_ms) == (2, pytest.approx(0.15), pytest.approx(0.1))
    assert phases(found, "GPU kernels")["CUDA graph 5"].share == pytest.approx(100 * 200 / 360)
    assert phases(found, "CPU, own time")["cudaGraphLaunch"].calls == 1
    assert phases(found, "named on the CPU")["verify"].total_ms == pytest.approx(0.3)
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as db, db:
        db.execute("CREATE TABLE t (a)")
    with pytest.raises(ProfileError, match="none of Nsight"):
        read_profile(tmp_path / "other.sqlite", "other")
    with pytest.raises(ProfileError, match=r"nsys export --type sqlite r\.nsys-rep"):
        read(tmp_path, "binary", "r.nsys-rep")
    with pytest.raises(ProfileError, match="has no rows"):
        read(tmp_path, "Time (%),Total Time (ns),Instances,Name\n", "empty.csv")


def test_step_times_that_a_server_tells(tmp_path: Path) -> None:
    told = {
        "decode_log_interval": 10, "startup_time": {"load_weight": 62.5, "cuda_graph": {"decode": 4.0, "prefill": 0.0}},
        "internal_states": [{"step_time_dict": {"4": [0.9, 0.005, 0.0052, 0.0054], "1": [0.004]}}, {}],
    }  # fmt: skip
    found = read(tmp_path, json.dumps(told), "server_info.json")
    steps = phases(found, "decode steps")
    assert (steps["decode step, 4 running"].calls, steps["decode step, 4 running"].mean_ms) == (30, pytest.approx(5.2))
    assert steps["decode step, 1 running"].total_ms == pytest.approx(40.0)
    assert found.note == "1 value above 3 times the median left out: the server had paused."
    assert {name: one.total_ms for name, one in phases(found, "start").items()} == {
        "load_weight": 62500.0, "cuda_graph decode": 4000.0,
    }  # fmt: skip
    with pytest.raises(ProfileError, match="SGLANG_RECORD_STEP_TIME=1"):
        read(tmp_path, json.dumps({"internal_states": [{}]}), "server_info.json")


@pytest.mark.parametrize(
    "told",
    [
        {"internal_states": 5, "startup_time": 5}, {"internal_states": [1, None, {"step_time_dict": [1]}]},
        {"internal_states": [], "startup_time": {"a": float("inf")}}, {"internal_states": [{"step_time_dict": {"1": 5}}]},
    ],
)  # fmt: skip
def test_what_only_looks_like_the_answer_of_a_server(tmp_path: Path, told: object) -> None:
    with pytest.raises(ProfileError, match="has no step times"):
        read(tmp_path, json.dumps(told), "server_info.json")


def test_files_that_are_damaged_say_so(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(json.dumps({"traceEvents": list(range(20_000))}).encode()))
    packed[len(packed) // 2] ^= 0xFF
    (tmp_path / "t.json.gz").write_bytes(packed)
    with pytest.raises(ProfileError, match=r"damaged|no JSON|cut short"):
        read_profile(tmp_path / "t.json.gz", "t.json.gz")
    with pytest.raises(ProfileError, match="no JSON"):
        read(tmp_path, '{"a":' * 50_000, "deep.json")
    broken = "] Decode batch, #running-req: 4, gen throughput (token/s): 1.2.3, accept len: ..\n"
    with pytest.raises(ProfileError, match="no times"):
        read(tmp_path, broken, "s.log")


def test_step_times_that_follow_from_a_real_log() -> None:
    """Of an H200, SGLang 0.5.16, EAGLE-3 on random weights: the client's median ITL was 6.5 ms, prefills not counted."""
    found = read_profile(LOGS / "h200-0.5.16-eagle3-s2.log", "log")
    step = phases(found, "decode steps")["decode step, 4 running"]
    assert step.calls == 280
    assert 6.5 < (step.mean_ms or 0) < 8.5
    cpu = phases(read_profile(LOGS / "cpu-0.5.23-api-key.log", "log"), "start")
    assert cpu["load_weight"].total_ms == pytest.approx(50)


def test_accepted_tokens_make_a_step_longer(tmp_path: Path) -> None:
    line = "[2026-12-01 01:20:13] Decode batch, #running-req: 2, #token: 4, accept len: 2.50, gen throughput (token/s): 500.00"
    found = read(tmp_path, f"server_args={{'decode_log_interval': 8}}\n{line}\n{line}\n", "s.log")
    assert [(one.calls, one.mean_ms) for one in found.phases] == [(8, pytest.approx(10.0))]


def test_times_of_a_log() -> None:
    log = "took=9 ms\n[EAGLE3_PROFILE] draft=1.5 ms verify: 20 ms\n[TP0] profile draft=500us n=3 verify=0.01s\r\n"
    assert printed_phases(log.splitlines()) == [
        Phase("draft", None, 2, 2.0, 1.0), Phase("verify", None, 2, 30.0, 15.0),
    ]  # fmt: skip
    pattern = r"(?P<name>\w) took (?P<value>\d+)(?: (?P<unit>\w))?"
    assert printed_phases(["x took 3 h, y took 4"], pattern) == [Phase("y", None, 1, 4.0, 4.0)]


def test_any_two_of_calls_total_and_mean_give_the_third() -> None:
    before = {
        "phases": [{"name": "draft", "calls": 100, "mean_ms": 2.0}, {"name": "verify", "calls": 100, "total_ms": 600}]
    }
    after = {"phases": [{"name": "verify", "calls": 50, "total_ms": 270}, {"name": "extend", "mean_ms": 1.0}]}
    draft, verify, extend = differences(before, after)
    assert (draft["share"], draft["difference_percent"]) == ([25.0, None], None)
    assert (verify["share"], verify["calls"], verify["mean_ms"]) == ([75.0, 100.0], [100, 50], [6.0, 5.4])
    assert verify["difference_percent"] == pytest.approx(-10.0)
    assert (extend["share"], extend["mean_ms"]) == ([None, None], [None, 1.0])


def test_the_same_name_in_two_groups_is_two_phases() -> None:
    one = {
        "phases": [{"name": "x", "group": "a", "total_ms": 1}, {"name": "x", "group": "b", "total_ms": 3, "share": 40}]
    }
    first, second = differences(one, one)
    assert (first["group"], first["share"], first["difference_percent"]) == ("a", [100.0, 100.0], 0.0)
    assert (second["group"], second["share"]) == ("b", [40.0, 40.0])
