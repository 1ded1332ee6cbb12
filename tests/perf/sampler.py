"""What sampling eight GPUs each second takes of a core, beside other tools that do it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
from tests.perf.measure import Figure, benchmark

_SECONDS = 40.0
_BENEATH = 0.2
# The sampler as the daemon runs it, on a store of its own, and nothing else in the process.
_SAMPLING = """
import asyncio, json, random, sys, time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from sitrepd.clock import utc_now
from sitrepd.hardware import newest
from sitrepd.hardware.hosts import make_host
from sitrepd.hardware.live import LiveHardware
from sitrepd.hardware.keeping import Keeper
from sitrepd.hardware.nvml import Nvml
from sitrepd.hardware.quantities import KINDS
from sitrepd.hardware.sampler import Sampler, read
from sitrepd.hardware.worker import NvmlWorker
from sitrepd.settings import load_settings
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

async def seal(runtime, host):
    # What the seconds of a GPU wait for: 900 rows of each are sealed every 900 s.
    rng, start = random.Random(1), utc_now() - timedelta(seconds=3000)
    for gpu in range(len(runtime.live["hardware"].samples)):
        rows = [row(host, gpu, start + timedelta(seconds=n), rng) for n in range(1200)]
        await runtime.store.write_async(lambda db: newest.add(db, rows))
    before = time.process_time()
    await Keeper(runtime, host).seal()
    return (time.process_time() - before) / 900

def row(host, gpu, at, rng):
    told = dict.fromkeys(KINDS, 0) | {name: round(rng.gauss(90, 5)) for name in ("utilization", "memory_utilization")}
    told |= {"power_w": round(rng.gauss(420, 15), 3), "memory_used_bytes": 88 * 10**9 + rng.randrange(64) * 2**21}
    told |= {"temperature_c": 61 + rng.randrange(3), "sm_clock_mhz": 1980 - 15 * rng.randrange(9)}
    return {"host_id": host, "gpu": gpu, "at": at, **told}

async def main(folder, seconds):
    settings = load_settings(data_dir=Path(folder), sample_idle_s=1.0)
    store = Store(settings)
    host = store.write(lambda db: make_host(db, load_registry(), "perf"))
    runtime = SimpleNamespace(settings=settings, store=store, live={"hardware": LiveHardware(reason=None)})
    worker = NvmlWorker()
    async def changed(): pass
    sampler = Sampler(runtime, host, worker, changed)
    task = asyncio.create_task(sampler.run())
    await asyncio.sleep(5)
    began, busy = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    busy, took = time.process_time() - busy, time.monotonic() - began
    task.cancel()
    await sampler.store()
    sealing = await seal(runtime, host)
    gpus = len(runtime.live["hardware"].samples)
    nvml = Nvml.open()
    once = []
    for _ in range(50):
        before = time.thread_time()
        read(nvml, processes=False)
        once.append(time.thread_time() - before)
    print(json.dumps({"busy": busy / took, "sealing": sealing, "gpus": gpus, "reading": sorted(once)[len(once) // 2]}))
    worker.stop()
    store.close()

asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""
# The same calls with nothing but ctypes around them: what the driver itself takes, and a call from Python at the least.
_DRIVER = """
import ctypes, json, time
lib = ctypes.CDLL("libnvidia-ml.so.1")
lib.nvmlInit_v2()
count = ctypes.c_uint()
lib.nvmlDeviceGetCount_v2(ctypes.byref(count))
room, version = ctypes.create_string_buffer(4096), ctypes.c_uint(0x02000028)
number = ctypes.byref(ctypes.c_ulonglong())
handles = []
for index in range(count.value):
    handle = ctypes.c_void_p()
    lib.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle))
    handles.append(handle)
ctypes.memmove(room, ctypes.byref(version), 4)
calls = [(lib.nvmlDeviceGetUtilizationRates, number), (lib.nvmlDeviceGetMemoryInfo_v2, room),
         (lib.nvmlDeviceGetPowerUsage, number), (lib.nvmlDeviceGetTemperature, ctypes.c_uint(0), number),
         (lib.nvmlDeviceGetClockInfo, ctypes.c_uint(1), number), (lib.nvmlDeviceGetClockInfo, ctypes.c_uint(2), number),
         (lib.nvmlDeviceGetCurrentClocksEventReasons, number), (lib.nvmlDeviceGetPerformanceState, number)]
once = []
for _ in range(100):
    before = time.thread_time()
    for handle in handles:
        for function, *args in calls:
            function(handle, *args)
    once.append(time.thread_time() - before)
print(json.dumps(sorted(once)[len(once) // 2]))
"""


@benchmark("sampler_cpu_fraction")
def sampler() -> Iterator[Figure]:
    """With what GPUs there are; with eight of a stub of the driver's library, whose calls take next to nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = dict(os.environ)
        real = _loads(env)
        if not real:
            from tests.stubs import build_nvml_stub

            build_nvml_stub(folder)
            (folder / "control").write_text("gpus=8\nstill=1\nutilization=93\npower_mw=412345\n")
            env |= {"LD_LIBRARY_PATH": str(folder), "NVML_STUB_CONTROL": str(folder / "control")}
        told = _run(_SAMPLING, env, str(folder / "store"), str(_SECONDS))
        driver = _run(_DRIVER, env)
        peers = {peer: busy for peer, command in _peers().items() if (busy := _busy(command, env)) is not None}
    beyond = 100 * (told["busy"] + told["sealing"] - driver)
    shown = ", ".join(f"{peer} {100 * busy:.3f} %" for peer, busy in peers.items())
    note = (
        f"{told['gpus']} GPUs {'of this machine' if real else 'of a stub'} at 1 Hz with storing; all "
        f"{100 * told['busy']:.3f} %, sealing {100 * told['sealing']:.3f} %, the driver's calls {100 * driver:.3f} %, "
        f"calls by pynvml {100 * told['reading']:.3f} %" + ("; the peers with the driver's calls" if peers else "")
    )
    first = next(iter(peers.values()), None)
    ratio = beyond / (100 * first) if first else None
    yield Figure("sampler_cpu_fraction", beyond, "% of a core", shown or None, ratio, _BENEATH, note)


def _loads(env: dict[str, str]) -> bool:
    code = "import ctypes, sys; lib = ctypes.CDLL('libnvidia-ml.so.1'); sys.exit(lib.nvmlInit_v2())"
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=False).returncode == 0


def _run(code: str, env: dict[str, str], *args: str) -> Any:
    child = subprocess.run([sys.executable, "-c", code, *args], env=env, capture_output=True, text=True, check=False)
    if child.returncode:
        raise RuntimeError(child.stderr)
    return json.loads(child.stdout)


def _peers() -> dict[str, list[str]]:
    """Those that are installed; both print what they see once a second."""
    known = {
        "nvitop": ["nvitop", "--monitor", "--interval", "1"],
        "nvidia-smi dmon": ["nvidia-smi", "dmon", "-d", "1", "-s", "pucm"],
    }
    return {name: command for name, command in known.items() if shutil.which(command[0])}


def _busy(command: list[str], env: dict[str, str]) -> float | None:
    """Of a core, with its children, in a terminal that nobody looks at; None where it does not go on."""
    typescript = ["script", "-qefc", " ".join(command), "/dev/null"]
    process = subprocess.Popen(
        typescript, env=env | {"TERM": "xterm"}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(5)
        before, began = _spent(process.pid), time.monotonic()
        time.sleep(_SECONDS / 2)
        after, took = _spent(process.pid), time.monotonic() - began
        return None if process.poll() is not None else (after - before) / took
    finally:
        process.terminate()
        process.wait(20)


def _spent(pid: int) -> float:
    try:
        root = psutil.Process(pid)
        return sum(sum(one.cpu_times()[:2]) for one in root.children(recursive=True))
    except psutil.NoSuchProcess:
        return 0.0
