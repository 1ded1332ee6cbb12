from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sitrepd.launches.kernel_log import kernel_messages

NOW = datetime.now(UTC)


def journalctl(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = folder / "journalctl"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_the_journal_is_asked_where_the_log_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    said = "echo 'NVRM: Xid (PCI:0000:c1:00): 79, off'; echo 'usb 1-1: new device'; echo \"$@\" >&2"
    journalctl(tmp_path, f'{said}; echo "$@" > {tmp_path}/args', monkeypatch)
    found = kernel_messages(NOW - timedelta(seconds=5), NOW, tmp_path / "nowhere")
    assert found == ["NVRM: Xid (PCI:0000:c1:00): 79, off"]
    assert f"--since=@{(NOW - timedelta(seconds=5)).timestamp():.0f}" in (tmp_path / "args").read_text()


def test_without_either_nothing_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    journalctl(tmp_path, "exit 1", monkeypatch)
    assert kernel_messages(NOW, NOW, tmp_path / "nowhere") == []
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert kernel_messages(NOW, NOW, tmp_path / "nowhere") == []


def test_records_between_two_instants(tmp_path: Path):
    log = tmp_path / "kmsg"
    log.write_text("3,1,5,-;NVRM: Xid (PCI:0000:c1:00): 79, long ago\n")
    assert kernel_messages(NOW - timedelta(seconds=1), NOW, log) == []
    assert kernel_messages(NOW - timedelta(days=9999), NOW, log) == ["NVRM: Xid (PCI:0000:c1:00): 79, long ago"]
