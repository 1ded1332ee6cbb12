"""What the kernel has said of GPUs and of killed processes, where its log may be read."""

from __future__ import annotations

import os
import re
import subprocess
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

_WORTH = re.compile(r"NVRM|Xid|[Oo]ut of memory|oom-kill|oom_reaper|[Kk]illed process|AER:|Link Down")
_RECORD_BYTES = 8192
_MOST = 200
_JOURNAL_S = 5.0


def kernel_messages(since: datetime, until: datetime, path: Path = Path("/dev/kmsg")) -> list[str]:
    """Messages about GPUs and the OOM killer between two instants, by journalctl where the log may not be read."""
    booted = datetime.now(UTC) - timedelta(seconds=time.clock_gettime(time.CLOCK_MONOTONIC))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return _of_journal(since, until)
    try:
        return [text for at, text in _records(fd) if since <= booted + timedelta(microseconds=at) <= until][-_MOST:]
    finally:
        os.close(fd)


def _of_journal(since: datetime, until: datetime) -> list[str]:
    """Empty where this user may read it no more than the log itself, or there is none."""
    between = (f"--since=@{since.timestamp():.0f}", f"--until=@{until.timestamp() + 1:.0f}")
    command = ("journalctl", "--dmesg", "--output=cat", "--no-pager", "--quiet", *between)
    try:
        told = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=_JOURNAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = told.stdout.decode("utf-8", "replace").splitlines()
    return [line for line in lines if _WORTH.search(line)][-_MOST:]


def _records(fd: int) -> list[tuple[int, str]]:
    """Microseconds since boot, and the text."""
    records: list[tuple[int, str]] = []
    while True:
        try:
            record = os.read(fd, _RECORD_BYTES).decode("utf-8", "replace")
        except BrokenPipeError:
            continue  # records were overwritten while we read
        except OSError:
            return records
        if not record:
            return records
        told = parse_record(record)
        if told is not None:
            records.append(told)


def parse_record(record: str) -> tuple[int, str] | None:
    """A record of /dev/kmsg (`priority,sequence,microseconds,flags;text`) that is worth knowing."""
    head, _, text = record.partition(";")
    fields = head.split(",")
    text = text.partition("\n")[0]
    if len(fields) < 3 or not fields[2].isdigit() or not _WORTH.search(text):
        return None
    return int(fields[2]), text
