"""Numbers as people read them; what is stored and answered as JSON keeps all its digits."""

from __future__ import annotations

import re
from decimal import Decimal

_FLOAT = re.compile(r"-?\d+\.\d{4,}")
_FLOAT_DIGITS = 12


def short_text(told: object) -> str:
    """What a float left behind is rounded: 111.22608609673608 is `111.23`, 0.00123456789012 is `0.00123`.

    A number of less than twelve digits was meant so, and is as it was told.
    """
    text = str(told)
    if not _FLOAT.fullmatch(text) or len(text.replace(".", "").lstrip("-0")) < _FLOAT_DIGITS:
        return text
    value = Decimal(text)
    return format(value.quantize(Decimal(1).scaleb(-max(2, 2 - value.adjusted()))), "f")
