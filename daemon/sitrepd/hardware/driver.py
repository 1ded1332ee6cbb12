from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

Answer: TypeAlias = Any  # pynvml is untyped, and answers with numbers, text and ctypes structures

_LIBRARY = "libnvidia-ml.so.1"
NO_GPU = "no NVIDIA GPU found"
_NVIDIA_VENDOR = "0x10de"
_DISPLAY_CLASS = "0x03"

_SENTENCES = {
    1: "the NVIDIA driver went away",
    3: "the NVIDIA driver does not support the query",
    4: "this user may not ask the NVIDIA driver (see the permissions of /dev/nvidia*)",
    9: "the NVIDIA driver is not loaded",
    11: "the GPU has an interrupt problem, as the NVIDIA driver says",
    12: f"driver library not found ({_LIBRARY})",
    15: "the GPU is lost: the NVIDIA driver can no longer reach it",
    16: "the GPU needs a reset, as the NVIDIA driver says",
    17: "the operating system keeps this process from the NVIDIA driver",
    18: "driver/library version mismatch: the NVIDIA driver was updated; reload it or reboot, then restart the daemon",
    28: "the GPU is no longer found by the NVIDIA driver",
    999: "the NVIDIA driver answers with an unknown error",
}
_DRIVER_GONE = {1, 9, 18}
_GPU_LOST = {15, 16, 28}
_LIBRARY_NOT_FOUND = 12
# Not supported, no permission, a function or a version of a structure that this driver does not have.
_UNSUPPORTED = {3, 4, 13, 25}


class DriverGone(Exception):
    """The driver answers nothing at all; the text says why."""


class GpuLost(Exception):
    """One GPU answers nothing; the text says why."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call into the driver that is under way; `since` is of time.monotonic()."""

    name: str
    since: float


def sentence(code: int) -> str:
    return _SENTENCES.get(code, f"the NVIDIA driver answers with error {code}")


def without_library(sys_root: Path) -> str:
    """Tells a machine without an NVIDIA GPU from one whose driver is missing, by the PCI bus in sysfs."""
    if _has_nvidia_gpu(sys_root):
        return f"{_SENTENCES[_LIBRARY_NOT_FOUND]}, though an NVIDIA GPU is on the PCI bus: its driver is not installed"
    return NO_GPU


def _has_library() -> bool:
    """Where it is not there, its bindings need not be read, which takes time and memory."""
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return False
    return True


class Driver:
    """An opened libnvidia-ml; a query that fails gives None unless it shows that a GPU or the driver is gone."""

    def __init__(self, pynvml: ModuleType) -> None:
        self._pynvml = pynvml
        self._error = pynvml.NVMLError
        self._calling: str | None = None
        self._called_at = 0.0
        self.last_error: str | None = None
        self.unsupported = False

    @classmethod
    def open(cls, sys_root: Path) -> Driver:
        """Raises DriverGone with a plain sentence; the first client without persistence mode waits seconds."""
        if not _has_library():
            raise DriverGone(without_library(sys_root))
        import pynvml

        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            missing = error.value == _LIBRARY_NOT_FOUND
            raise DriverGone(without_library(sys_root) if missing else sentence(error.value)) from None
        return cls(pynvml)

    def close(self) -> None:
        self.ask("nvmlShutdown", tolerant=True)

    @property
    def call(self) -> Call | None:
        """What is under way, as seen from another thread."""
        name, since = self._calling, self._called_at
        return None if name is None else Call(name, since)

    def ask(self, name: str, *args: object, tolerant: bool = False) -> Answer:
        """None for whatever cannot be answered; raises DriverGone and GpuLost unless tolerant.

        `unsupported` says of the last None whether it would be the same the next time.
        """
        function = getattr(self._pynvml, name, None)
        self._called_at = time.monotonic()
        try:
            return _text(self._call(name, function, args, tolerant))
        finally:
            self._calling = None

    def prepare(self, name: str, *args: object) -> Callable[[], Answer]:
        """As `ask`, again and again; `begin` and `done` go around a row of such calls."""
        function = getattr(self._pynvml, name, None)
        return partial(self._call, name, function, args)

    def begin(self) -> None:
        self._called_at = time.monotonic()

    def done(self) -> None:
        self._calling = None

    def _call(self, name: str, function: Answer, args: Sequence[object], tolerant: bool = False) -> Answer:
        if function is None:
            self.unsupported = True
            return None
        self._calling = name
        try:
            return function(*args)
        except self._error as error:
            if not tolerant:
                _raise_if_gone(error.value)
            self.last_error = sentence(error.value)
            self.unsupported = error.value in _UNSUPPORTED
        except ValueError:
            self.last_error = f"the NVIDIA driver answered {name} with something unreadable"
            self.unsupported = False
        return None

    def require(self, name: str, *args: object) -> Answer:
        """Raises GpuLost where `ask` would give None."""
        answer = self.ask(name, *args)
        if answer is None:
            raise GpuLost(self.last_error or sentence(999))
        return answer

    def processes(self, handle: object) -> list[tuple[str, int, int | None]]:
        """(kind, pid, used bytes) for compute, MPS and graphics clients, as the driver lists them."""
        found = []
        for kind, name in _PROCESS_LISTS:
            listed: Sequence[Any] = self.ask(name, handle) or ()
            found += [(kind, int(process.pid), process.usedGpuMemory) for process in listed]
        return found


_PROCESS_LISTS = (
    ("compute", "nvmlDeviceGetComputeRunningProcesses"),
    ("compute", "nvmlDeviceGetMPSComputeRunningProcesses_v3"),
    ("graphics", "nvmlDeviceGetGraphicsRunningProcesses"),
)


def _raise_if_gone(code: int) -> None:
    if code in _DRIVER_GONE:
        raise DriverGone(sentence(code))
    if code in _GPU_LOST:
        raise GpuLost(sentence(code))


def _text(answer: Answer) -> Answer:
    return answer.decode() if isinstance(answer, bytes) else answer


def _has_nvidia_gpu(sys_root: Path) -> bool:
    for device in sys_root.glob("bus/pci/devices/*"):
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        if vendor == _NVIDIA_VENDOR and kind.startswith(_DISPLAY_CLASS):
            return True
    return False
