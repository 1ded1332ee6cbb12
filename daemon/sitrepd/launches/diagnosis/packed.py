"""Logs that were packed to be sent or rotated: gzip, bzip2 and xz, known by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

_BLOCK_BYTES = 1 << 20
_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open,
}  # fmt: skip


@contextmanager
def unpacked(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file itself, or what is packed in it in a temporary file; of one that is cut short, what can be had."""
    head = os.pread(file.fileno(), 6, 0)
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    if opener is None:
        yield file
        return
    with tempfile.TemporaryFile() as spool:
        file.seek(0)
        with opener(file, "rb") as packed:
            _copy(packed, spool)
        spool.flush()
        yield spool


def _copy(packed: Any, spool: IO[bytes]) -> None:
    """`read1` gives what is unpacked so far, where `read` would lose it when the end is missing."""
    try:
        while block := packed.read1(_BLOCK_BYTES):
            spool.write(block)
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile):
        if not spool.tell():
            raise OSError("it is packed, and cannot be unpacked") from None
