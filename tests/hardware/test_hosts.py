from __future__ import annotations

import socket
from pathlib import Path

from sitrepd.hardware.hosts import machine_key

MACHINE_ID = "0123456789abcdef0123456789abcdef"


def test_a_machine_goes_by_its_hashed_id(tmp_path: Path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text(MACHINE_ID + "\n")
    key = machine_key(tmp_path)
    assert key == machine_key(tmp_path)
    assert len(key) == 32
    assert MACHINE_ID not in key


def test_without_one_it_goes_by_its_name(tmp_path: Path):
    assert machine_key(tmp_path) == f"name:{socket.gethostname()}"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("uninitialized\n")
    assert machine_key(tmp_path) == f"name:{socket.gethostname()}"
