"""Safetensors files: what their headers say of their size, without reading their tensors."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

_MOST_HEADER_BYTES = 100 << 20


@dataclass(frozen=True, slots=True)
class Shard:
    """`problem` says in words what is wrong with the file; `tensor_bytes` are those that its header promises."""

    size: int = 0
    tensor_bytes: int = 0
    problem: str | None = None


def read_shard(path: Path) -> Shard:
    """Reads the header alone (about 10 KB to 1 MB)."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            head = file.read(8)
            if head == b"version ":
                return Shard(size, problem="is a Git LFS pointer, not the file itself")
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > min(size - 8, _MOST_HEADER_BYTES):
                return Shard(size, problem=f"is cut off in its header ({size} bytes)")
            promised = _promised(file.read(length))
    except FileNotFoundError:
        return Shard(problem="is missing")
    except OSError as error:
        return Shard(problem=f"cannot be read: {error.strerror}")
    if promised is None:
        return Shard(size, problem="has a header that cannot be read")
    wanted = 8 + length + promised
    if size < wanted:
        return Shard(size, promised, f"is cut off: {size} of {wanted} bytes")
    return Shard(size, promised)


def _promised(header: bytes) -> int | None:
    """Where the last tensor ends."""
    try:
        told = json.loads(header)
        return max((int(one["data_offsets"][1]) for name, one in told.items() if name != "__metadata__"), default=0)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None
