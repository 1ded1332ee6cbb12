"""Numbers in answers keep the decimals with which they were told: 88.80 is not printed as 88.8.

Pydantic writes JSON numbers from floats alone, so a number that a float would shorten travels through it as a string
that nobody else can make, and becomes a number again before the answer is sent.
"""

from __future__ import annotations

import re
import secrets
from decimal import Decimal

from pydantic import SerializationInfo

from sitrepd.storage.types import plain_json

_MARK = f"number {secrets.token_hex(16)} "
_MARKED = re.compile(f'"{_MARK}(-?[0-9.e+-]+)"'.encode())
_SMALLEST_PLAIN = -4


def number_text(value: Decimal) -> str:
    """The number with all its decimals: 94.0 is `94.0`, 0.000010 is `0.000010`, 1E+6 is `1e+06`.

    What has no zero at its end to keep and is as small as tools print with an exponent is printed so: `1e-05`.
    """
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int) or (value.adjusted() >= _SMALLEST_PLAIN and exponent <= 0):
        return str(value)
    if not value or (exponent <= 0 and digits[-1] == 0):
        return format(value, "f")
    mantissa, _, power = format(value, "e").partition("e")
    return f"{mantissa}e{int(power):+03d}"


def to_json(value: Decimal, info: SerializationInfo) -> float | int | str:
    """As int or float; where that changes its text, marked, if it is for an answer: FastAPI alone asks by alias."""
    number, text = plain_json(value), number_text(value)
    if not info.by_alias or repr(number) == text:
        return number  # type: ignore[no-any-return]
    return _MARK + text


def unmark(body: bytes) -> bytes:
    """The marked strings as numbers."""
    return _MARKED.sub(rb"\1", body) if _MARK.encode() in body else body
