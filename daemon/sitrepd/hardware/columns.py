"""A codec for columns of whole numbers: differences, cut into planes of bytes of equal weight, deflated.

GPU readings stand still, jump between a few values, or tremble: differences make nothing of the first two, and the
planes keep what trembles from hiding what does not. It needs the standard library alone; a codec on numpy would cost an
idle daemon 28 MB.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub

_SIGNED = ((1, "b"), (2, "h"), (4, "i"), (8, "q"))
_MOST_ORDER = 2
_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_RLE)
# The first byte: bits 0-1 how often differences were taken, 2-3 the width, 6 planes as they are, 7 no planes at all.
_STORED = 0x40
_CONSTANT = 0x80


def encode(values: Sequence[int]) -> bytes:
    """The shortest of a few ways; how many values there are is for the caller to know. They fit 64 bits with a sign."""
    ways = []
    for order, heads, rest in _differences(values):
        if rest.count(rest[0]) == len(rest):
            return bytes([_CONSTANT | order]) + numbers(*heads, rest[0])
        ways.append(_way(order, heads, rest))
    if not ways:
        return b""
    head, planes, _ = min(ways, key=lambda way: len(way[2]))
    squeezed = min((_deflated(planes, strategy) for strategy in _STRATEGIES), key=len)
    if len(squeezed) >= len(planes):
        return bytes([head[0] | _STORED]) + head[1:] + planes
    return head + squeezed


def decode(data: bytes, count: int) -> list[int]:
    """What was encoded, given how many values that was."""
    if count == 0:
        return []
    order, width, letter = data[0] & 3, *_SIGNED[data[0] >> 2 & 3]
    heads, at = read_numbers(data, 1, order)
    [base], at = read_numbers(data, at, 1) if order == 0 or data[0] & _CONSTANT else ([0], at)
    rest: list[int]
    if data[0] & _CONSTANT:
        rest = [base] * (count - order)
    else:
        planes = data[at:] if data[0] & _STORED else zlib.decompress(data[at:], -15)
        found = array(letter if order else letter.upper())
        found.frombytes(_joined(planes, width))
        rest = list(map(base.__add__, found)) if base else found.tolist()
    for head in reversed(heads):
        rest = list(accumulate(rest, initial=head))
    return rest


def _differences(values: Sequence[int]) -> Iterator[tuple[int, list[int], list[int]]]:
    """(how often, the first value of each step before, what is left)"""
    heads: list[int] = []
    rest = list(values)
    for order in range(_MOST_ORDER + 1):
        if not rest:
            return
        yield order, list(heads), rest
        heads.append(rest[0])
        rest = list(map(sub, rest[1:], rest))


def _way(order: int, heads: Sequence[int], rest: Sequence[int]) -> tuple[bytes, bytes, bytes]:
    """(head, planes, planes deflated); without differences the least value is what the others are counted from."""
    base = min(rest) if order == 0 else 0
    counted = [value - base for value in rest] if base else rest
    place, letter = _fitting(counted, signed=order > 0)
    width = _SIGNED[place][0]
    raw = array(letter, counted).tobytes()
    planes = b"".join(raw[byte::width] for byte in range(width))
    head = bytes([order | place << 2]) + numbers(*heads, *([base] if order == 0 else []))
    return head, planes, _deflated(planes, zlib.Z_DEFAULT_STRATEGY)


def _fitting(values: Sequence[int], *, signed: bool) -> tuple[int, str]:
    low, high = min(values), max(values)
    for place, (width, letter) in enumerate(_SIGNED):
        bits = 8 * width - 1
        if signed and -(1 << bits) <= low and high < 1 << bits:
            return place, letter
        if not signed and high < 1 << bits + 1:
            return place, letter.upper()
    raise OverflowError(f"a column cannot hold {low} and {high}")


def _joined(planes: bytes, width: int) -> bytes:
    if width == 1:
        return planes
    each = len(planes) // width
    joined = bytearray(len(planes))
    for byte in range(width):
        joined[byte::width] = planes[byte * each : (byte + 1) * each]
    return bytes(joined)


def _deflated(data: bytes, strategy: int) -> bytes:
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    return squeezer.compress(data) + squeezer.flush()


def numbers(*values: int) -> bytes:
    """Seven bits a byte, the low ones first, the sign in the lowest bit of all."""
    told = bytearray()
    for value in values:
        left = value << 1 if value >= 0 else -value << 1 | 1
        while left > 0x7F:
            told.append(left & 0x7F | 0x80)
            left >>= 7
        told.append(left)
    return bytes(told)


def read_numbers(data: bytes, at: int, count: int) -> tuple[list[int], int]:
    """So many numbers from there on, and where they end."""
    found = []
    for _ in range(count):
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        found.append(-(value >> 1) if value & 1 else value >> 1)
    return found, at
