from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Environment:
    """A real virtual environment whose packages are made by hand."""

    prefix: Path
    packages: Path

    @property
    def python(self) -> str:
        return str(self.prefix / "bin" / "python")

    def install(self, name: str, version: str, **files: str) -> Path:
        folder = self.packages / f"{name.replace('-', '_')}-{version}.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        for file, text in files.items():
            (folder / file.replace("__", ".")).write_text(text)
        return folder

    def module(self, path: str, text: str) -> None:
        file = self.packages / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def script(self, name: str, text: str) -> str:
        file = self.prefix / "bin" / name
        file.write_text(text)
        file.chmod(0o755)
        return str(file)


def make_environment(prefix: Path) -> Environment:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    [packages] = prefix.glob("lib/python3*/site-packages")
    return Environment(prefix, packages)


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """One for a module: what a test installs, the later ones see."""
    return make_environment(tmp_path_factory.mktemp("venv") / "serving")
