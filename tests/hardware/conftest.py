from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.stubs import NvmlStub, nvml_library, nvml_stub

__all__ = ["gpu_daemon", "nvml_library", "nvml_stub"]


@pytest.fixture
def gpu_daemon(nvml_stub: NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Daemon]]:
    """Starts a daemon that sees the stub's GPUs."""
    for name, value in nvml_stub.env.items():
        monkeypatch.setenv(name, value)
    with ExitStack() as stack:

        def start(**settings: Any) -> Daemon:
            return stack.enter_context(running_daemon(tmp_path / "store", **settings))

        yield start


@contextmanager
def no_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty file of that name goes before a real driver's library, and cannot be loaded."""
    (folder / "libnvidia-ml.so.1").write_text("")
    with monkeypatch.context() as patched:
        patched.setenv("LD_LIBRARY_PATH", str(folder))
        yield
