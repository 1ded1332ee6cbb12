"""Stand-ins for what a test machine does not have, driven through the real client libraries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.helpers import PATIENCE_S

_SOURCE = Path(__file__).with_name("nvml.c")
_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]


@dataclass(frozen=True)
class NvmlStub:
    """A folder with a libnvidia-ml.so.1 and the file that says how it behaves (see nvml.c for its keys)."""

    folder: Path
    control: Path

    @property
    def env(self) -> dict[str, str]:
        """What a child needs in its environment from the start: the loader reads LD_LIBRARY_PATH only then."""
        return {"LD_LIBRARY_PATH": str(self.folder), "NVML_STUB_CONTROL": str(self.control)}

    def set(self, **values: object) -> None:
        """Underscores in a key that should be dots are written as two: utilization__3=97."""
        said = self.control.with_suffix(".new")
        said.write_text("".join(f"{key.replace('__', '.')}={value}\n" for key, value in values.items()))
        said.replace(self.control)

    def run(self, code: str, timeout_s: float = PATIENCE_S) -> Any:
        """Runs code in a child that loads the stub, and gives what it passes to `say` as JSON."""
        prelude = (
            "import json, os, time\n"
            "from pathlib import Path\n"
            "control = Path(os.environ['NVML_STUB_CONTROL'])\n"
            "def say(value): print(json.dumps(value))\n"
        )
        child = subprocess.run(
            [sys.executable, "-W", "error", "-c", prelude + code],
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        return json.loads(child.stdout)


def build_nvml_stub(folder: Path) -> Path:
    """Compiles the stub into the folder; without gcc the test fails, and says how gcc is had."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.fail("gcc is needed to compile tests/stubs/nvml.c: apt-get install gcc", pytrace=False)
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, *_FLAGS, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(_SOURCE)]
    subprocess.run(command, check=True)
    return library


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_nvml_stub(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def nvml_stub(nvml_library: Path, tmp_path: Path) -> NvmlStub:
    control = tmp_path / "nvml.control"
    control.write_text("")
    return NvmlStub(nvml_library.parent, control)
