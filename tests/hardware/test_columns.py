from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitrepd.hardware import columns

# A loaded machine is slow, which is no fault of what is tested.
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@patient
@given(st.lists(st.integers(-(2**61), 2**61), max_size=50))
def test_any_column_comes_back(values: list[int]):
    assert columns.decode(columns.encode(values), len(values)) == values


@patient
@given(st.lists(st.integers(-300, 300), max_size=200))
def test_small_numbers_come_back(values: list[int]):
    assert columns.decode(columns.encode(values), len(values)) == values


@patient
@given(st.lists(st.integers(-(2**80), 2**80), max_size=10))
def test_numbers_of_any_size_come_back(values: list[int]):
    data = columns.numbers(*values)
    assert columns.read_numbers(b"xx" + data + b"y", 2, len(values)) == (values, 2 + len(data))


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ([], 0),
        ([7] * 3600, 3),
        (list(range(1_700_000_000_00, 1_700_000_000_00 + 360_000, 100)), 12),
        ([0] * 1800 + [100] * 1800, 40),
        ([n % 2 for n in range(3600)], 40),
    ],
)
def test_what_stands_still_or_goes_on_evenly_takes_next_to_nothing(values: list[int], most: int):
    assert len(columns.encode(values)) <= most


def test_noise_takes_what_it_holds():
    rng = random.Random(1)
    noise = [rng.randrange(256) for _ in range(3600)]
    assert len(columns.encode(noise)) <= 3600 + 8
    wide = [400_000 + rng.randrange(1 << 16) for _ in range(3600)]
    assert len(columns.encode(wide)) <= 7200 + 8


def test_what_does_not_fit_is_refused():
    with pytest.raises(OverflowError, match="cannot hold"):
        columns.encode([0, 2**70, 5])
