"""What the kernel has said of GPUs and of killed processes, where its log may be read."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta

_WORTH = re.compile(r"NVRM|Xid|[Oo]ut of memory|oom-kill|oom_reaper|[Kk]illed process|AER:|Link Down")
_RECORD_BYTES = 8192
_MOST = 200


def kernel_messages(since: datetime, until: datetime) -> list[str]:
    """Messages about GPUs and the OOM killer between two instants; empty where the log may not be read."""
    booted = datetime.now(UTC) - timedelta(seconds=time.clock_gettime(time.CLOCK_MONOTONIC))
    try:
        fd = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return [text for at, text in _records(fd) if since <= booted + timedelta(microseconds=at) <= until][-_MOST:]
    finally:
        os.close(fd)


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
