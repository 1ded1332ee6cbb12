"""Traces of the PyTorch profiler: a real one of torch 2.14 on a CPU, and GPU events as Kineto writes them."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sitrepd.benchmarks.profiles.busy import Busy, Nested
from sitrepd.benchmarks.profiles.found import Found, Phase, ProfileError, clipped
from sitrepd.benchmarks.profiles.kernels import category
from sitrepd.benchmarks.profiles.reading import read_profile

DATA = Path(__file__).parents[2] / "data" / "profiles"
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_bf16>(cutlass_80_tensorop_bf16::Params)"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def event(
    cat: str, name: str, start: float, length: float, stream: int = 7, device: int = 0, **more: Any
) -> dict[str, Any]:
    about = {"device": device, "stream": stream} if cat in ("kernel", "gpu_memcpy") else {}
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": device,
        "tid": stream,
        "ts": start,
        "dur": length,
        "args": about,
    } | more


def read(tmp_path: Path, events: Any, name: str = "t.json") -> Found:
    path = tmp_path / name
    path.write_text(json.dumps(events if isinstance(events, list) else {"schemaVersion": 1, **events}))
    return read_profile(path, name)


def phases(found: Found, group: str) -> dict[str, Phase]:
    return {phase.name: phase for phase in found.phases if phase.group == group}


def test_own_times_of_a_real_trace_are_those_that_torch_itself_tells() -> None:
    found = read_profile(DATA / "torch-2.14-cpu.pt.trace.json.gz", "trace")
    own = phases(found, "CPU, own time")
    told = json.loads((DATA / "torch-2.14-cpu.key_averages.json").read_text())
    for name, (calls, own_us) in told.items():
        if name in own:
            assert own[name].calls == calls
            assert own[name].total_ms == pytest.approx(own_us / 1e3, rel=1e-3, abs=2e-3), name
    assert set(told) <= set(own)
    # draft#0, draft#1, draft#2 are one phase.
    assert {name: phase.calls for name, phase in phases(found, "named on the CPU").items()} == {"draft": 3, "verify": 3}
    assert found.note == "Nothing ran on a GPU while this was recorded."


def test_what_overlaps_on_the_gpu_counts_once(tmp_path: Path) -> None:
    base = 1_790_857_026_000_000.0
    found = read(tmp_path, {"traceEvents": [
        event("kernel", GEMM, base, 100), event("kernel", GEMM, base + 200, 100),
        event("kernel", NCCL, base + 50, 100, stream=20),
        event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", base + 290, 20, stream=21),
        event("gpu_user_annotation", "step[DECODE bs=4 g_sk=11011]", base, 150),
        event("gpu_user_annotation", "step[DECODE bs=4 g_sk=12022]", base + 200, 110),
        event("cpu_op", "aten::mm", base - 90, 40, 1), event("cuda_runtime", "cudaLaunchKernel", base - 70, 10, 1),
        event("python_function", "forward", base - 1000, 5000, 1),
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "ts": base}, {"ph": "M", "name": "process_name"},
    ]})  # fmt: skip
    whole = phases(found, "whole")
    assert whole["wall time"].total_ms == pytest.approx(0.4)
    assert whole["GPU busy"].total_ms == pytest.approx(0.26)
    assert whole["GPU busy"].share == pytest.approx(65)
    assert whole["GPU idle"].total_ms == pytest.approx(0.14)
    assert whole["CPU busy"].total_ms == pytest.approx(0.04)
    by = phases(found, "GPU by category")
    assert by["matrix products"].share == pytest.approx(100 * 200 / 260)
    assert by["communication"].total_ms == pytest.approx(0.1)
    kernel = phases(found, "GPU kernels")["cutlass::Kernel2<cutlass_80_tensorop_bf16>"]
    assert (kernel.calls, kernel.mean_ms) == (2, pytest.approx(0.1))
    assert phases(found, "named on the GPU")["step[DECODE bs=4]"].calls == 2
    assert phases(found, "CPU, own time")["aten::mm"].total_ms == pytest.approx(0.03)
    assert "3 streams; 0.060 ms of 0.320 ms on the GPU ran beside other work" in (found.note or "")


def test_each_of_several_gpus_is_told(tmp_path: Path) -> None:
    found = read(tmp_path, [event("kernel", GEMM, 0, 10), event("kernel", GEMM, 0, 30, device=1)])
    whole = phases(found, "whole")
    assert (whole["GPU 0 busy"].total_ms, whole["GPU 1 busy"].total_ms) == (pytest.approx(0.01), pytest.approx(0.03))
    assert phases(found, "GPU kernels")[clipped(GEMM)].total_ms == pytest.approx(0.04)


def test_only_the_largest_are_told_and_the_rest_as_one(tmp_path: Path) -> None:
    events = [event("kernel", f"triton_{at}", at * 10, 1 + at / 100) for at in range(60)]
    kernels = phases(read(tmp_path, events), "GPU kernels")
    assert len(kernels) == 41
    assert kernels["20 other kernels"].calls == 20
    assert sum(one.share or 0 for one in kernels.values()) == pytest.approx(100)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "na', "is cut short"),
        ('{"traceEvents": []}', "no events of a GPU"),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "x", "dur": 1}]}', "no events of a GPU"),
        ('[{"ph": "X"}, nonsense]', "is no JSON"),
        ('{"a": 1}', "neither a trace nor what /server_info answers"),
        ("", "has no times"),
    ],
)
def test_what_is_no_trace_is_said(tmp_path: Path, body: str, why: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(body)
    with pytest.raises(ProfileError, match=why):
        read_profile(path, "t.json")


def test_a_packed_trace_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b'{"traceEvents": [' + b'{"ph": "M"},' * 9999 + b"]}")[:-20])
    with pytest.raises(ProfileError, match="cut short"):
        read_profile(path, "t.json.gz")
    with pytest.raises(ProfileError, match="cannot be read: No such file"):
        read_profile(tmp_path / "none", "none")


def test_unions_and_own_times_against_a_slow_count() -> None:
    chance = random.Random(5)
    busy, seen = Busy(), set()
    for _ in range(9000):
        start, length = chance.randrange(40_000), chance.randrange(1, 9)
        busy.add(float(start), float(start + length))
        seen.update(range(start, start + length))
    assert busy.union() == len(seen)
    assert busy.span() == (min(seen), max(seen) + 1)
    nested, own = Nested(), dict[int, tuple[int, float]]()
    for start, length, name in ((2, 3, 1), (0, 10, 0), (0, 4, 2), (3, 1, 3), (12, 1, 0)):
        nested.add(start, length, name)
    nested.own(own)
    assert own == {0: (2, 7.0), 2: (1, 2.0), 1: (1, 2.0), 3: (1, 1.0)}


@pytest.mark.parametrize(
    ("name", "is_for"),
    [
        (NCCL, "communication"), ("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(…)", "communication"),
        ("fused_moe_kernel", "mixture of experts"), ("marlin_moe_wna16::Marlin<…>", "mixture of experts"),
        ("void flash::flash_fwd_splitkv_kernel<…>", "attention"), ("_fwd_grouped_kernel_stage1", "attention"),
        ("nvjet_tst_128x64_64x6_2x1_v_bz_TNT", "matrix products"), ("void marlin::Marlin<…>", "matrix products"),
        ("void FusedAddRMSNormKernel<8u, __nv_bfloat16>", "norms"), ("Memcpy HtoD (Pinned -> Device)", "copies"),
        ("per_token_group_quant_8bit_kernel", "quantization"), ("_my_own", "other kernels"),
    ],
)  # fmt: skip
def test_what_kernels_are_for(name: str, is_for: str) -> None:
    assert category(name) == is_for


def test_names_of_kernels_keep_their_template_arguments() -> None:
    assert clipped("void a::b<(c)1, d>(e, f<(g)2>)") == "a::b<(c)1, d>"
    assert clipped("(anonymous namespace)::k<1>(int)") == "(anonymous namespace)::k<1>"
    assert len(clipped("k" * 900)) == 200


@pytest.mark.slow
def test_a_large_trace_is_read_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with open(path, "w") as file:
        file.write('{"traceEvents": [')
        for at in range(150_000):
            one = event("kernel", f"triton_{at % 300}", at * 10.0, 9.5, stream=at % 3)
            file.write(("," if at else "") + json.dumps(one | {"args": one["args"] | {"what": "x" * 500}}))
        file.write("]}")
    assert path.stat().st_size > 90 << 20
    code = (
        "import sys; from pathlib import Path; from sitrepd.benchmarks.profiles.reading import read_profile\n"
        "print(len(read_profile(Path(sys.argv[1]), 'x').phases))\n"
        # What getrusage tells counts the process that forked it, too.
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    told = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True).stdout
    count, kilobytes = map(int, told.split())
    assert count == 3 + 1 + 41
    assert kilobytes < 100 << 10
