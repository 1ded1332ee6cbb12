from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack

from sitrepd.hardware import readings
from sitrepd.hardware.driver import NO_GPU, Call, Driver, DriverGone, GpuLost
from sitrepd.hardware.gpus import GpuFacts, GpuProcess, GpuSample
from sitrepd.hardware.queries import Questions
from sitrepd.hardware.topology import SELF, UNKNOWN, Matrix, topology_matrix

T = TypeVar("T")
_P2P_READ = 0


class _Options(TypedDict, total=False):
    sys_root: Path
    reopen_after_s: float
    lost_after_s: float


@dataclass(slots=True)
class _Gpu:
    index: int
    uuid: str | None
    handle: Any
    facts: GpuFacts
    reason: str | None = None
    questions: Questions | None = None


class Nvml:
    """The GPUs of this machine, never raising: `reason` says why there are none, each GPU's why it is absent.

    Calls block for microseconds, or for as long as a broken driver likes: keep them off the event loop.
    """

    def __init__(
        self, *, sys_root: Path = Path("/sys"), reopen_after_s: float = 10.0, lost_after_s: float = 600.0
    ) -> None:
        self._sys_root = sys_root
        self._reopen_after_s = reopen_after_s
        self._lost_after_s = lost_after_s
        self._lock = threading.RLock()
        self._driver: Driver | None = None
        self._gpus: list[_Gpu] = []
        self._tried_at = 0.0
        self._closed = False
        self.reason: str | None = "not opened yet"
        self.driver_version: str | None = None
        self.cuda_driver_version: str | None = None

    @classmethod
    def open(cls, **options: Unpack[_Options]) -> Nvml:
        """Opens libnvidia-ml once; without one, later calls try again now and then."""
        nvml = cls(**options)
        with nvml._lock:
            nvml._connect()
        return nvml

    def close(self) -> None:
        """Lets go of the driver, which cannot be unloaded or updated while we hold it."""
        with self._lock:
            self._closed = True
            self._disconnect("closed")

    @property
    def call(self) -> Call | None:
        """The call into the driver that is under way, readable from any thread."""
        driver = self._driver
        return None if driver is None else driver.call

    def gpu_facts(self) -> list[GpuFacts]:
        """About a millisecond a GPU: for a change of hardware, not for every second."""

        def read(driver: Driver, gpu: _Gpu) -> GpuFacts:
            gpu.questions = None  # what was not supported is asked again as seldom as this
            gpu.facts = readings.facts(driver, gpu.handle, gpu.facts, self._sys_root)
            return gpu.facts

        return self._each(read, lambda gpu, reason: replace(gpu.facts, reason=reason))

    def gpu_samples(self) -> list[GpuSample]:
        """About 30 us a GPU, now and then a little more; a GPU that never told its UUID has no sample."""

        def read(driver: Driver, gpu: _Gpu) -> GpuSample:
            gpu.questions = gpu.questions or Questions(driver, gpu.handle, gpu.index, gpu.uuid or "")
            return gpu.questions.sample()

        def absent(gpu: _Gpu, reason: str) -> GpuSample:
            return GpuSample(gpu.index, gpu.uuid or "", reason=reason)

        return [sample for sample in self._each(read, absent) if sample.uuid]

    def gpu_processes(self) -> list[GpuProcess]:
        """Up to 4.5 ms a GPU under the driver's global lock: every 10 s is enough."""

        def read(driver: Driver, gpu: _Gpu) -> list[GpuProcess]:
            return readings.processes(driver, gpu.handle, gpu.index, gpu.uuid or "")

        return [process for listed in self._each(read, lambda _gpu, _reason: []) for process in listed]

    def topology(self) -> Matrix:
        """One row a GPU, in the order of gpu_facts(), with the words of `nvidia-smi topo -m`."""
        links_of = self._each(lambda driver, gpu: readings.nvlinks(driver, gpu.handle), lambda _gpu, _reason: [])
        with self._lock:
            index_of = {gpu.facts.pci_bus_id: at for at, gpu in enumerate(self._gpus) if gpu.facts.pci_bus_id}
            links = {at: readings.far_ends(far, index_of) for at, far in enumerate(links_of)}
            return topology_matrix(range(len(self._gpus)), self._levels(), links)

    def peers(self) -> Matrix:
        """One row a GPU: "OK" where it reaches the other's memory by itself, else why not."""
        with self._lock:
            return tuple(tuple(self._peer(one, other) for other in self._gpus) for one in self._gpus)

    def _peer(self, one: _Gpu, other: _Gpu) -> str:
        if one is other:
            return SELF
        if self._driver is None or one.reason or other.reason:
            return UNKNOWN
        status = self._driver.ask("nvmlDeviceGetP2PStatus", one.handle, other.handle, _P2P_READ, tolerant=True)
        return readings.peer_word(status)

    def _levels(self) -> dict[tuple[int, int], int | None]:
        levels: dict[tuple[int, int], int | None] = {}
        for (a, first), (b, second) in combinations(enumerate(self._gpus), 2):
            if self._driver is None or first.reason or second.reason:
                continue
            levels[a, b] = self._driver.ask(
                "nvmlDeviceGetTopologyCommonAncestor", first.handle, second.handle, tolerant=True
            )
        return levels

    def _each(self, read: Callable[[Driver, _Gpu], T], absent: Callable[[_Gpu, str], T]) -> list[T]:
        with self._lock:
            self._reconnect_if_due()
            answers = [self._one(gpu, read) for gpu in self._gpus]
            return [
                absent(gpu, self.reason or gpu.reason or NO_GPU) if answer is None or self.reason else answer
                for gpu, answer in zip(self._gpus, answers, strict=True)
            ]

    def _one(self, gpu: _Gpu, read: Callable[[Driver, _Gpu], T]) -> T | None:
        if self._driver is None or gpu.handle is None:
            return None
        try:
            answer = read(self._driver, gpu)
        except DriverGone as gone:
            self._disconnect(str(gone))
            return None
        except GpuLost as lost:
            gpu.reason = str(lost)
            return None
        gpu.reason = None
        return answer

    def _reconnect_if_due(self) -> None:
        lost = any(gpu.reason for gpu in self._gpus)
        if self._closed or (self.reason is None and not lost):
            return
        patient = self.reason in (None, NO_GPU)
        if time.monotonic() - self._tried_at >= (self._lost_after_s if patient else self._reopen_after_s):
            self._connect()

    def _connect(self) -> None:
        self._disconnect("not opened yet")
        self._tried_at = time.monotonic()
        try:
            self._driver = Driver.open(self._sys_root)
            self._look(self._driver)
        except DriverGone as gone:
            self._disconnect(str(gone))
            return
        self.reason = None
        if not self._gpus:
            self._disconnect(NO_GPU)

    def _disconnect(self, reason: str) -> None:
        driver, self._driver = self._driver, None
        self.reason = reason
        for gpu in self._gpus:
            gpu.handle = gpu.questions = None
        if driver is not None:
            driver.close()

    def _look(self, driver: Driver) -> None:
        """Finds the GPUs of now, and keeps those seen before that are missing, with the reason."""
        self.driver_version = driver.ask("nvmlSystemGetDriverVersion")
        self.cuda_driver_version = readings.cuda_version(driver.ask("nvmlSystemGetCudaDriverVersion_v2"))
        seen = [self._find(driver, index) for index in range(driver.ask("nvmlDeviceGetCount") or 0)]
        found = {gpu.uuid for gpu in seen if gpu.uuid}
        unnamed = {gpu.index: gpu for gpu in seen if not gpu.uuid}
        lost = [gpu for gpu in self._gpus if gpu.uuid and gpu.uuid not in found]
        for gpu in lost:
            nameless = unnamed.pop(gpu.index, None)
            gpu.reason = nameless.reason if nameless else "the GPU is no longer listed by the NVIDIA driver"
        named = [gpu for gpu in seen if gpu.uuid]
        self._gpus = sorted([*named, *unnamed.values(), *lost], key=lambda gpu: (gpu.index, gpu.uuid or ""))

    def _find(self, driver: Driver, index: int) -> _Gpu:
        before = {gpu.uuid: gpu for gpu in self._gpus}
        try:
            handle = driver.require("nvmlDeviceGetHandleByIndex", index)
            uuid = driver.require("nvmlDeviceGetUUID", handle)
        except GpuLost as lost:
            return _Gpu(index, None, None, GpuFacts(index), str(lost))
        known = before.get(uuid)
        facts = replace(known.facts, index=index) if known else GpuFacts(index, uuid=uuid)
        facts = replace(facts, pci_bus_id=readings.bus_id(driver.ask("nvmlDeviceGetPciInfo", handle)))
        return _Gpu(index, uuid, handle, facts)
