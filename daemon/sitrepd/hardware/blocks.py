"""Samples of one GPU as they lie in a chunk: columns one after another, each under the code of its metric."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import add, mul
from struct import Struct
from typing import cast

from sitrepd.hardware import columns
from sitrepd.hardware.gpus import THROTTLING
from sitrepd.hardware.quantities import KINDS, REASONS

# Times are kept to 10 ms: the jitter of a timer is no news.
TIME_MS = 10
_VERSION = 1
_TIME = 0
# Parts of a metric: which samples have it (absent where all do), the value of a sample, figures of a period.
_PRESENT, _VALUE, _LOW, _MEAN, _HIGH = range(5)
_THROTTLED, _SEEN = 5, 6
Column = list[int | None]
_Key = tuple[int, int]
_ENTRY = Struct("<BH")


@dataclass(slots=True)
class Samples:
    """Readings in order of time; values are whole (see `Metric.scale`), None where the GPU told none."""

    at_ms: list[int] = field(default_factory=list)
    values: dict[str, Column] = field(default_factory=dict)


@dataclass(slots=True)
class Period:
    """The samples of a minute or an hour; `figures` are (low, mean, high), the mean finer by `Metric.finer`.

    `reasons` are all that held the clocks in any of the `throttled` samples.
    """

    samples: int
    throttled: int = 0
    reasons: int = 0
    figures: dict[str, tuple[int, int, int]] = field(default_factory=dict)


Periods = dict[int, Period]


def pack_samples(samples: Samples) -> bytes:
    packed = {(_TIME, _VALUE): [at // TIME_MS for at in samples.at_ms]}
    for name, column in samples.values.items():
        _put(packed, KINDS[name].code, {_VALUE: column})
    return _packed(len(samples.at_ms), packed)


def unpack_samples(data: bytes, names: Collection[str]) -> Samples:
    """Only the wanted metrics are decoded."""
    count, found = _unpacked(data, {_TIME, *(KINDS[name].code for name in names)})
    at_ms = list(map(mul, found[_TIME, _VALUE], repeat(TIME_MS)))
    return Samples(at_ms, {name: _get(found, KINDS[name].code, _VALUE, count) for name in names})


def joined(one: Samples, other: Samples) -> Samples:
    """Both in order of time, of a clock that was set back."""
    at_ms = [*one.at_ms, *other.at_ms]
    order = sorted(range(len(at_ms)), key=at_ms.__getitem__)
    values = {}
    for name in {**one.values, **other.values}:
        column = [*one.values.get(name, [None] * len(one.at_ms)), *other.values.get(name, [None] * len(other.at_ms))]
        values[name] = [column[place] for place in order]
    return Samples([at_ms[place] for place in order], values)


def pack_periods(periods: Periods) -> bytes:
    order = sorted(periods)
    rows = [periods[number] for number in order]
    packed: dict[_Key, list[int]] = {(_TIME, _VALUE): order, (_TIME, _MEAN): [row.samples for row in rows]}
    reasons = KINDS[REASONS].code
    packed[reasons, _THROTTLED] = [row.throttled for row in rows]
    packed[reasons, _SEEN] = [row.reasons for row in rows]
    for name in {name: None for row in rows for name in row.figures}:
        figures = [row.figures.get(name) for row in rows]
        finer = KINDS[name].finer
        parts: dict[int, Column] = {
            _LOW: [None if told is None else told[0] for told in figures],
            _MEAN: [None if told is None else told[1] - told[0] * finer for told in figures],
            _HIGH: [None if told is None else told[2] - told[0] for told in figures],
        }
        _put(packed, KINDS[name].code, parts)
    return _packed(len(order), packed)


@dataclass(slots=True)
class Strip:
    """Periods as columns, for reading; the figures of a metric are None where the period has none."""

    numbers: list[int]
    samples: list[int]
    throttled: list[int]
    reasons: list[int]
    figures: dict[str, tuple[Column, Column, Column]]


def unpack_strip(data: bytes, names: Collection[str]) -> Strip:
    """Only the wanted metrics are decoded; where the reasons are not among them, none are said to have held."""
    count, found = _unpacked(data, {_TIME, *(KINDS[name].code for name in names)})
    figures = {}
    for name in names:
        if name == REASONS:
            continue
        code, finer = KINDS[name].code, KINDS[name].finer
        low, mean, high = (_get(found, code, part, count) for part in (_LOW, _MEAN, _HIGH))
        told = (code, _LOW) in found and (code, _PRESENT) not in found
        both = _sums if told else _sum
        figures[name] = (low, both(low if finer == 1 else _times(low, finer), mean), both(low, high))
    reasons, none = KINDS[REASONS].code, [0] * count
    seen = found.get((reasons, _THROTTLED), none), found.get((reasons, _SEEN), none)
    return Strip(found[_TIME, _VALUE], found[_TIME, _MEAN], *seen, figures)


def _sum(one: Column, other: Column) -> Column:
    return [None if a is None or b is None else a + b for a, b in zip(one, other, strict=True)]


def _sums(one: Column, other: Column) -> Column:
    """Where all have a value, in half of the time."""
    return list(map(add, cast(list[int], one), cast(list[int], other)))


def _times(column: Column, factor: int) -> Column:
    return [None if value is None else value * factor for value in column]


def unpack_periods(data: bytes) -> Periods:
    strip = unpack_strip(data, KINDS)
    periods = {}
    for place, number in enumerate(strip.numbers):
        figures = {}
        for name, (low, mean, high) in strip.figures.items():
            a, b, c = low[place], mean[place], high[place]
            if a is not None and b is not None and c is not None:
                figures[name] = (a, b, c)
        periods[number] = Period(strip.samples[place], strip.throttled[place], strip.reasons[place], figures)
    return periods


def fold(samples: Samples, step_s: int) -> Periods:
    """Samples summed up by periods of `step_s`, numbered from the epoch on."""
    periods: Periods = {}
    start = 0
    for number, group in groupby(at // (1000 * step_s) for at in samples.at_ms):
        end = start + sum(1 for _ in group)
        period = _period({name: column[start:end] for name, column in samples.values.items()}, end - start)
        periods[number] = merge(periods[number], period) if number in periods else period
        start = end
    return periods


def _period(values: Mapping[str, Column], samples: int) -> Period:
    period = Period(samples)
    for name, column in values.items():
        told = [value for value in column if value is not None]
        if name == REASONS:
            held = [value & THROTTLING for value in told if value & THROTTLING]
            period.throttled = len(held)
            for value in held:
                period.reasons |= value
        elif told:
            period.figures[name] = (min(told), round(KINDS[name].finer * sum(told) / len(told)), max(told))
    return period


def merge(one: Period, other: Period) -> Period:
    """Both together; means weigh as many samples as the periods have."""
    samples = one.samples + other.samples
    figures = dict(one.figures)
    for name, (low, mean, high) in other.figures.items():
        if name in figures:
            before = figures[name]
            mean = round((before[1] * one.samples + mean * other.samples) / samples)
            low, high = min(before[0], low), max(before[2], high)
        figures[name] = (low, mean, high)
    return Period(samples, one.throttled + other.throttled, one.reasons | other.reasons, figures)


def merged(before: Periods, more: Periods) -> Periods:
    together = dict(before)
    for number, period in more.items():
        together[number] = merge(together[number], period) if number in together else period
    return together


def _put(packed: dict[_Key, list[int]], code: int, parts: Mapping[int, Sequence[int | None]]) -> None:
    """All parts of a metric are there for the same samples; a metric that no sample has is left out."""
    first = next(iter(parts.values()))
    missing = first.count(None)
    if missing == len(first):
        return
    if missing:
        packed[code, _PRESENT] = [int(value is not None) for value in first]
    for part, column in parts.items():
        packed[code, part] = [value for value in column if value is not None]


def _get(found: Mapping[_Key, list[int]], code: int, part: int, count: int) -> Column:
    told = found.get((code, part))
    if told is None:
        return [None] * count
    present = found.get((code, _PRESENT))
    if present is None:
        return cast(Column, told)
    values = iter(told)
    return [next(values) if there else None for there in present]


def _packed(count: int, packed: Mapping[_Key, Sequence[int]]) -> bytes:
    """Version, how many samples and columns; of each its code and part in one byte, and its length; the columns."""
    encoded = {code << 3 | part: columns.encode(column) for (code, part), column in packed.items()}
    head = bytes([_VERSION]) + columns.numbers(count, len(encoded))
    return head + b"".join(_ENTRY.pack(key, len(data)) for key, data in encoded.items()) + b"".join(encoded.values())


def _unpacked(data: bytes, codes: Collection[int]) -> tuple[int, dict[_Key, list[int]]]:
    """A code of a later version is skipped like one that is not wanted."""
    if data[0] != _VERSION:
        raise ValueError(f"a chunk of samples of version {data[0]} is not understood")
    (count, entries), at = columns.read_numbers(data, 1, 2)
    start = at + entries * _ENTRY.size
    found: dict[_Key, list[int]] = {}
    present: dict[int, int] = {}
    for key, length in _ENTRY.iter_unpack(data[at:start]):
        code, part = key >> 3, key & 7
        if code in codes:
            many = count if part == _PRESENT else present.get(code, count)
            column = found[code, part] = columns.decode(data[start : start + length], many)
            if part == _PRESENT:
                present[code] = sum(column)
        start += length
    return count, found
