"""A file as blocks of whole lines, compressed or not, and what its first lines are."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

BLOCK_BYTES = 4 << 20
HEAD_BYTES = 256 << 10
MOST_BYTES = 64 << 30
_LONGEST_LINE = 8 << 20
_MAGIC = ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ\0", lzma.open))
UNREADABLE = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, unpacked where it is compressed; raises one of UNREADABLE, now or at a read."""
    with open(path, "rb") as raw:
        start = raw.read(6)
        raw.seek(0)
        for magic, unpack in _MAGIC:
            if start.startswith(magic):
                with unpack(raw, "rb") as file:
                    yield cast("BinaryIO", file)
                return
        yield raw


def head(path: str) -> bytes:
    """Its first bytes, without the zeros that a truncated log begins with."""
    with opened(path) as file:
        data = file.read(HEAD_BYTES)
        passed = len(data)
        while data and not data.strip(b"\0") and passed < MOST_BYTES:
            data = file.read(BLOCK_BYTES)
            passed += len(data)
        return data.lstrip(b"\0")[:HEAD_BYTES]


def blocks(file: BinaryIO) -> Iterator[bytes]:
    """Pieces that end at a line feed, but for the last, and for what lies inside an endless line."""
    rest = b""
    while data := file.read(BLOCK_BYTES):
        data = rest + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) < _LONGEST_LINE:
            rest = data
            continue
        end = end or len(data)
        rest = data[end:]
        yield data[:end]
    if rest:
        yield rest


def is_binary(data: bytes) -> bool:
    """Whether a tenth of it is neither text nor what terminals understand."""
    sample = data[: 32 << 10]
    odd = len(sample.translate(None, _TEXT)) + sample.decode("utf-8", "replace").count("\ufffd") // 2
    return bool(sample) and (odd > len(sample) // 10 or sample.count(b"\0") > len(sample) // 50)


_TEXT = bytes(range(32, 256)) + b"\t\n\r\x0b\x0c\x1b\x08"
