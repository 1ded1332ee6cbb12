"""What summaries as models write them hold of the pinned facts, against labels by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitrepd.agents.summaries import missing

FACTS = (
    ("S1", "goal", "Deploy and optimize EAGLE-3 speculative decoding for Kimi-K2.5 INT4 on 8 RTX PRO 6000 Blackwell GPUs "
     "and beat the throughput of the baseline without speculation."),
    ("D1", "directive", "No hacks that cut precision."),
    ("D2", "directive", "Only legitimate throughput improvements count."),
    ("D3", "directive", "Optimize from data, do not guess."),
    ("F1", "root cause", "Hidden states differ between training and inference"),
    ("F3", "rejected", "Without --disable-custom-all-reduce: TTFT 1421.7 ms instead of 1102.3 ms"),
    ("F4", "decision", "NCCL_BUFFSIZE=16777216 and NCCL_MAX_NCHANNELS=16 stay"),
    ("F5", "constraint", "The draft is /data/eagle3/output_100k_sglang/4"),
    ("F6", "rejected", "FP8 KV cache"),
    ("N1", "next step", "When the 3-step server is ready, run the same benchmark on it and complete the step-count curve."),
    ("N2", "next step", "Confirm that 2 steps is the optimum; then scale the drafter's training data."),
    ("B3", "best configuration", "EAGLE-3, 2 steps 94.0"),
)  # fmt: skip
# What a person who reads them says that each has lost; another wording of a wish is not the wish.
LOST = {
    "claude-code": {"F6", "N2"},
    "opencode": {"D2", "F3"},
    "codex": {"S1", "F1", "F4"},
    "gemini": {"D2", "D3", "F3", "F5", "F6", "N1", "N2"},
    "terse": {"F1", "F5", "N2"},
    "email": {"S1", "F3", "F4"},
    "prose": {"S1", "D1", "D2", "D3", "F3", "F4", "F5", "F6", "N1", "N2"},
    "wrong": {"D1", "D2", "D3", "F1", "F3", "F4", "F5", "F6", "N1", "N2", "B3"},
}


@pytest.mark.parametrize("name", sorted(LOST))
def test_a_summary_holds_what_a_person_finds_in_it(name: str) -> None:
    summary = (Path(__file__).parent / "summaries" / f"{name}.md").read_text()
    found = {one["id"] for one in missing(FACTS, summary)}
    assert (found - LOST[name], LOST[name] - found) == (set(), set()), "(false lost, false kept)"
