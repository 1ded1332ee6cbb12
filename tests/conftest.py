"""No test sees the settings or the store of whoever runs it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.running import end_started

if TYPE_CHECKING:
    from fastapi.testclient import TestClient
    from tests.daemons import Daemon

    from sitrepd.storage.store import Store


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Child processes share compiled modules, also where Python is told not to write them beside the sources."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("PYTHONDONTWRITEBYTECODE"):
            patch.delenv("PYTHONDONTWRITEBYTECODE")
            patch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path_factory.mktemp("compiled")))
        yield


# What this machine's servers and kernel tell is no test's business, but of those that bring their own; and checkpoints of
# what is told come when a test asks for them, not some time later on a slow machine.
_OURS = {"SITREP_ADOPT": "false", "SITREP_KERNEL_LOG": os.devnull, "SITREP_CHECKPOINT_QUIET_S": "3600"}


@pytest.fixture(scope="session", autouse=True)
def _own_settings() -> Iterator[None]:
    """Also of daemons that several tests share."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in _OURS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> None:
    """A shell's background job ignores Ctrl-C, and so would every child that a test interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _own_processes() -> Iterator[None]:
    yield
    end_started()


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Child processes inherit this too: no SITREP_*, user folders of the test's own, and no eye for others' servers."""
    for name in [name for name in os.environ if name.startswith("SITREP_")]:
        monkeypatch.delenv(name)
    for name in ("CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in _OURS.items():
        monkeypatch.setenv(name, value)
    home: Path = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store that no daemon serves."""
    from sitrepd.settings import load_settings
    from sitrepd.storage.store import Store

    store = Store(load_settings(data_dir=tmp_path, port=0))
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """The application on an empty store, spoken to with the token."""
    from tests.daemons import application

    with application(tmp_path / "store") as found:
        yield found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A real daemon on an empty store."""
    from tests.daemons import running_daemon

    with running_daemon(tmp_path / "store") as found:
        yield found
