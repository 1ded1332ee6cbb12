from __future__ import annotations

import pytest

from sitrepd.figures import short_text


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("111.22608609673608", "111.23"),
        ("0.00123456789012", "0.00123"),
        ("-0.98765432109876", "-0.988"),
        ("0.99999999999999", "1.000"),
        ("94.0", "94.0"),
        ("88.80", "88.80"),
        ("0.000010", "0.000010"),
        ("415.517633", "415.517633"),
        ("123456789.125", "123456789.125"),
        ("1e-05", "1e-05"),
        ("NaN", "NaN"),
        (16, "16"),
    ],
)
def test_only_what_a_float_left_behind_is_rounded(told: object, text: str) -> None:
    assert short_text(told) == text
