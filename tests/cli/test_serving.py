"""`serve` without Typer: what it reads, and that Typer reads the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import free_port

from sitrepd.cli.serving import parsed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], {}),
        (["--data-dir", "/d", "--port=8000", "--host", "::1"], {"--data-dir": "/d", "--port": "8000", "--host": "::1"}),
        (["--any-port", "--data-dir=/a b"], {"--any-port": "", "--data-dir": "/a b"}),
    ],
)  # fmt: skip
def test_plain_options_are_read(words: list[str], told: dict[str, str]) -> None:
    assert parsed(words) == told


@pytest.mark.parametrize(
    "words",
    [
        ["--help"], ["-h"], ["--json"], ["--port"], ["--port", "x"], ["--port", "-1"], ["--port", "٣"], ["--data-dir", "--port"],
        ["--any-port=1"], ["--any-port="], ["--port", "1", "--port", "2"], ["more"], ["--", "--port"], ["--por", "1"],
    ],
)  # fmt: skip
def test_whatever_else_is_left_to_the_full_command_line(words: list[str]) -> None:
    assert parsed(words) is None


@pytest.mark.parametrize("words", [["--port", "99999"], ["--port", "99999", "--json"]])
def test_a_refusal_reads_the_same_either_way(tmp_path: Path, words: list[str]) -> None:
    command = [sys.executable, "-m", "sitrepd.cli", "serve", "--data-dir", str(tmp_path), *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "port" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_daemon_does_without_what_its_first_request_does_not_want(tmp_path: Path) -> None:
    script = (
        "import sys; from sitrepd.settings import load_settings; from sitrepd.app import create_app\n"
        f"app = create_app(load_settings(data_dir={str(tmp_path)!r}, port={free_port()}))\n"
        "print([name for name in ('typer', 'jinja2', 'alembic', 'mcp', 'pynvml', 'markdown_it', 'httpx2', "
        "'sitrepd.dashboard.routes', 'sitrepd.system', 'sitrepd.launches.routes', 'sitrepd.launches.diagnosis', "
        "'sitrepd.launches.check.run') if name in sys.modules])\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout.strip() == "[]"
