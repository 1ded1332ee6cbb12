"""Compiled templates, kept in the store's folder: the first checkpoint after a start does not wait for Jinja."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from jinja2.bccache import Bucket, FileSystemBytecodeCache


class _Cache(FileSystemBytecodeCache):
    """One that may fail: what could not be kept is compiled again."""

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().dump_bytecode(bucket)

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)


def compiled(folder: Path | None) -> FileSystemBytecodeCache | None:
    """A cache in that folder, of this user alone; None where it cannot be made. Jinja checks what it reads."""
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return _Cache(str(folder), "%s.jinja")
