from __future__ import annotations

from typing import Any

import pytest

from sitrepd.hardware.gpus import GpuFacts, GpuSample, architecture_word, clock_reason_words, pcie_word
from sitrepd.hardware.state import State, state_of
from sitrepd.hardware.topology import SWITCH, interconnect_word, path_word, topology_matrix


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0, ()),
        (1, ("idle",)),
        (0x4 | 0x40, ("power cap", "thermal (hardware)")),
        (0x8000 | 0x1, ("idle", "0x8000")),
    ],
)
def test_clock_reasons_in_words(mask: int, words: tuple[str, ...]):
    assert clock_reason_words(mask) == words


@pytest.mark.parametrize(
    ("mask", "throttled"), [(None, None), (0, False), (1, False), (2, False), (4, True), (0x80, True)]
)
def test_idling_and_chosen_clocks_are_not_throttling(mask: int | None, throttled: bool | None):
    assert GpuSample(0, "GPU-0", clock_reasons_mask=mask).throttled is throttled


@pytest.mark.parametrize(
    ("facts", "values", "word", "why"),
    [
        (None, {"utilization_percent": 4}, "idle", ""),
        (None, {"utilization_percent": 5, "clock_reasons_mask": 4}, "busy", "power cap"),
        (None, {"power_w": 300.0}, "unknown", "it does not tell how busy it is"),
        (GpuFacts(0, mig=True), {"power_w": 300.0}, "unknown", "it does not tell how busy it is: it is divided (MIG)"),
        (GpuFacts(0, mig=True), {"clock_reasons_mask": 0x40}, "throttling", "thermal (hardware)"),
        (None, {"reason": "it is lost"}, "broken", "it is lost"),
    ],
)
def test_the_word_for_a_gpu(facts: GpuFacts | None, values: dict[str, Any], word: str, why: str):
    assert state_of(facts, GpuSample(0, "GPU-0", **values)) == State(word, why)


@pytest.mark.parametrize(("number", "word"), [(9, "Hopper"), (99, "architecture 99"), (0xFFFFFFFF, None)])
def test_architecture_words(number: int, word: str | None):
    assert architecture_word(number) == word


def test_a_link_is_told_only_whole():
    assert pcie_word(5, 16) == "Gen5 x16"
    assert pcie_word(None, 16) is None


def test_path_words_follow_nvidia_smi():
    assert [path_word(level) for level in (10, 20, 30, 40, 50, 17, None)] == [
        "PIX", "PXB", "PHB", "NODE", "SYS", "?", "?",
    ]  # fmt: skip


def test_over_switches_the_narrower_gpu_counts():
    matrix = topology_matrix([0, 1], {(0, 1): 50}, {0: [SWITCH] * 18, 1: [SWITCH] * 17})
    assert matrix == (("X", "NV17"), ("NV17", "X"))


@pytest.mark.parametrize(
    ("matrix", "word"),
    [
        ((), None),
        ((("X",),), None),
        ((("X", "?"), ("?", "X")), None),
        ((("X", "SYS"), ("SYS", "X")), "PCIe"),
        ((("X", "NV18"), ("NV18", "X")), "NVLink (NV18)"),
        ((("X", "NV2", "NV1"), ("NV2", "X", "NV1"), ("NV1", "NV1", "X")), "NVLink"),
        (
            (("X", "NV2", "SYS"), ("NV2", "X", "SYS"), ("SYS", "SYS", "X")),
            "NVLink between some GPUs, PCIe between the others",
        ),
    ],
)
def test_interconnect_in_a_phrase(matrix: tuple[tuple[str, ...], ...], word: str | None):
    assert interconnect_word(matrix) == word
