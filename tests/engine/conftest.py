"""The real SGLang on the processor of this machine; how it is had, and a daemon with a command line beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from platformdirs import user_cache_path
from tests.cli.running import Sitrep
from tests.daemons import running_daemon
from tests.engine.servers import Room

_PYTHON = os.environ.get("SITREP_TEST_SGLANG_PYTHON")
_WANTED = os.environ.get("SITREP_TEST_SGLANG") == "1"
_HOW = "needs the real SGLang (9 GB of disk): SITREP_TEST_SGLANG=1 uv run pytest -m slow tests/engine"
_SCRIPT = Path(__file__).parents[2] / "scripts" / "sglang-cpu"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            if not (_PYTHON or _WANTED):
                item.add_marker(pytest.mark.skip(reason=_HOW))


@pytest.fixture(scope="session")
def sglang_python() -> str:
    """An interpreter that has SGLang: the named one, or one that is installed once and kept in the user's cache."""
    if _PYTHON:
        return _PYTHON
    folder = user_cache_path("sitrep") / "sglang-cpu"
    env = {"PYTHON": sys.executable, **os.environ}
    done = subprocess.run(
        [_SCRIPT, folder], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        pytest.fail(f"SGLang could not be installed in {folder}:\n{done.stdout}{done.stderr}", pytrace=False)
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory, sglang_python: str) -> Iterator[Room]:
    """A daemon of the module's own, with one open session."""
    folder = tmp_path_factory.mktemp("engine")
    with running_daemon(folder / "store", adopt=True, adopt_below=folder) as daemon:
        found = Room(daemon, Sitrep(folder / "store", folder), folder, sglang_python)
        found.sitrep("session", "open", "real engine").ok()
        try:
            yield found
        finally:
            found.end()
