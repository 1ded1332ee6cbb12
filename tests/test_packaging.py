"""What is shipped: the lock, the wheel, and the version that they all name."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sitrepd

ROOT = Path(__file__).resolve().parent.parent
UV = os.environ.get("UV") or shutil.which("uv")
needs_uv = pytest.mark.skipif(UV is None, reason="uv is not on the path (pip install uv)")
# Joined here, so that this file does not name them itself.
REGISTRIES = [
    ".".join(parts)
    for parts in [
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("yarnpkg", "com"),
        ("crates", "io"),
        ("anaconda", "org"),
        ("docker", "io"),
        ("ghcr", "io"),
        ("quay", "io"),
        ("nvcr", "io"),
    ]
]


def _run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


def _tracked() -> list[Path]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in _run("git", "ls-files", "-z").split("\0") if name]


def _requirements(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


@needs_uv
@pytest.mark.skipif(not (ROOT / "uv.lock").exists(), reason="no uv.lock: run `uv sync` first")
def test_requirements_lock_is_what_uv_exports() -> None:
    options = ["--no-dev", "--no-emit-project", "--no-annotate", "--no-header", "--format", "requirements-txt"]
    exported = _run(str(UV), "export", "--quiet", "--frozen", "--offline", *options)
    locked = (ROOT / "requirements.lock").read_text()
    assert _requirements(locked) == _requirements(exported), "run scripts/lock"


def test_requirements_lock_pins_every_dependency_with_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert "://" not in text
    entries = re.sub(r"\\\n", "", text).splitlines()[1:]
    assert all(re.match(r"[\w.-]+==\S+ .*--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)
    pinned = {re.split("==", entry)[0] for entry in entries}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.split(r"[<>=!~\[; ]", name)[0].lower() for name in project["dependencies"]}
    assert wanted <= pinned


def test_no_tracked_file_names_a_registry() -> None:
    named = [
        f"{path.relative_to(ROOT)} names {host}"
        for path in _tracked()
        if path.is_file()
        for host in REGISTRIES
        if host.encode() in path.read_bytes()
    ]
    assert named == []


def test_uv_lock_is_not_tracked() -> None:
    assert ROOT / "uv.lock" not in _tracked()


def test_versions_agree() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert sitrepd.__version__ == declared
    assert importlib.metadata.version("sitrepd") == declared
    headings = re.findall(r"^## \[([^\]]+)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == declared


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@needs_uv
@pytest.mark.slow
@pytest.mark.parametrize("flags", [["--wheel"], []], ids=["checkout", "sdist"])
def test_wheel_carries_what_the_program_reads(tmp_path: Path, flags: list[str]) -> None:
    """From the checkout, and through the source distribution (uv's way without a flag)."""
    _run(str(UV), "build", "--quiet", *flags, "--out-dir", str(tmp_path))
    names = _names(next(tmp_path.glob("*.whl")))

    for top, inside in (("templates", "_templates"), ("migrations", "_migrations")):
        files = [path.relative_to(ROOT / top) for path in (ROOT / top).rglob("*") if path.is_file()]
        wanted = {f"sitrepd/{inside}/{file}" for file in files if "__pycache__" not in file.parts}
        assert wanted, f"{top} is empty"
        assert wanted <= names
    assert {"sitrepd/py.typed", "sitrepd/__init__.py"} <= names
    assert any(re.fullmatch(r"sitrepd-[\d.]+\.dist-info/licenses/LICENSE", name) for name in names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"sitrepd"}
    assert not any("__pycache__" in name for name in names)


@needs_uv
@pytest.mark.slow
def test_installed_wheel_finds_its_templates(tmp_path: Path) -> None:
    _run(str(UV), "build", "--quiet", "--wheel", "--out-dir", str(tmp_path))
    site = tmp_path / "site"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        archive.extractall(site)
    code = "from sitrepd.paths import resource_dir; print(resource_dir('templates'), resource_dir('migrations'))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(site)!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(site / "sitrepd/_templates"), str(site / "sitrepd/_migrations")]
