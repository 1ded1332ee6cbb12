"""What the kernel says of GPUs and of processes that it killed for want of memory."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from sitrepd.hardware.xids import meaning

_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F]+:[0-9a-fA-F]+:[0-9a-fA-F]+)(?:\.\d)?(?: GPU-I:\w+)?\): (?P<xid>\d+)"
    r"(?:, pid='?(?P<pid>[^,']*)'?)?(?:, name=(?P<name>[^,]*))?,?\s*(?P<rest>.*)"
)
# Until Linux 5.1 why is told in a message before.
_KILLED = re.compile(
    r"(?P<memory>[Oo]ut of memory.*?: |)Killed process (?P<pid>\d+) \((?P<name>.*?)\)"
    r"(?P<usage>,? (?:UID \d+,? )?total-vm:)?"
)
_KILLING = re.compile(r"out of memory.*: Kill process \d+ \(", re.IGNORECASE)
_RECORD = re.compile(r"\d+,\d+,(?P<us>\d+),[^;]*;(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the kernel, `us` microseconds after it booted."""

    us: int
    text: str


@dataclass(frozen=True, slots=True)
class Xid:
    pci: str
    xid: int
    meaning: str
    pid: int | None
    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class OomKill:
    """`cgroup` says whether a limit of a group was reached, and not the machine's memory."""

    pid: int
    name: str
    cgroup: bool
    text: str


def of_record(line: str) -> Message | None:
    """A line of /dev/kmsg (`priority,sequence,microseconds,flags;text`); those that go on begin with a space."""
    found = _RECORD.match(line)
    return Message(int(found["us"]), found["text"]) if found else None


def of_journal(line: str) -> Message | None:
    """A line of `journalctl -k -o json`."""
    try:
        told: dict[str, Any] = json.loads(line)
        us, text = int(told.get("_SOURCE_MONOTONIC_TIMESTAMP") or told["__MONOTONIC_TIMESTAMP"]), told["MESSAGE"]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    # What is no UTF-8 is a list of bytes there, and what is too long is null.
    return Message(us, text) if isinstance(text, str) else None


def understood(text: str) -> Xid | OomKill | None:
    """None for what is about neither."""
    found = _XID.search(text)
    if found:
        number = int(found["xid"])
        pid = found["pid"] or ""
        name = found["name"] if found["name"] and "unknown" not in found["name"] else None
        return Xid(address(found["pci"]), number, meaning(number), int(pid) if pid.isdigit() else None, name, text)
    found = _KILLED.search(text)
    if found and (found["memory"] or found["usage"]):
        cgroup = "cgroup" in text[: found.end()].lower()
        return OomKill(int(found["pid"]), found["name"], cgroup, text)
    return None


def announced(text: str) -> bool | None:
    """Of a message that a process is about to be killed, whether for the limit of a group; None for any other."""
    return "cgroup" in text.lower() if _KILLING.search(text) else None


def address(pci: str) -> str:
    """As sysfs writes it, which has a function besides: 0000:c1:00.0."""
    domain, bus, device = pci.lower().split(":")
    return f"{int(domain, 16):04x}:{bus}:{device}.0"
