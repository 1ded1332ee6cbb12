"""Standing wishes in what users write: what is taken for one, and what is not."""

from __future__ import annotations

import pytest

from sitrepd.agents.directives import MOST, is_wish, key, proposed

WISHES = [
    "Never restart the box without asking.",
    "never use FP8 for the KV cache",
    "Always benchmark with concurrency 16.",
    "Don't touch the production server on port 30000!",
    "Don’t quantize anything.",
    "Please do not change the draft model.",
    "And please never push to main.",
    "You must keep the accept length above 2.5.",
    "The precision must not drop.",
    "All numbers must come from bench_serving.",
    "I prefer small steps, one flag at a time.",
    "I'd prefer --tp-size 8 over pipeline parallelism.",
    "Prefer triton over flashinfer.",
    "Avoid --disable-cuda-graph.",
    "Make sure every run is recorded.",
    "From now on use NCCL_ALGO=Ring.",
    "If a launch fails, never retry it with the same flags.",
    "No hacks that cut precision.",
    "Only use GPUs 0-3.",
    "We never compare runs of different workloads.",
    "You should not use sudo.",
    "Under no circumstances delete /shared/kimi-k2.5-int4.",
    "I don't want any more restarts today.",
    "Ask before you stop a server.",
    "Keep the baseline flags unchanged.",
    "Stick to SGLang 0.5.16.",
    "The tests have to be green before each commit.",
    "Stop using nohup.",
    "No restarts while a benchmark runs.",
    "Whatever happens, the server must stay up.",
]
OTHERS = [
    "What is the throughput now?",
    "Why don't you try 3 steps?",
    "Should we always use EAGLE-3?",
    "I don't know what happened.",
    "I never saw that error before.",
    "It must be the network.",
    "It must have crashed at capture.",
    "Run the benchmark again.",
    "Launch it with 2 steps.",
    "Never mind.",
    "Don't worry about it.",
    "The server always crashes here.",
    "That never works on this box.",
    "status",
    "Continue if you have next steps, or stop.",
    "It should work now.",
    "The log says: RuntimeError: CUDA error.",
    "Good, that looks right.",
    "I think we don't have the weights yet.",
]


@pytest.mark.parametrize("sentence", WISHES)
def test_a_wish_is_taken_for_one(sentence: str) -> None:
    assert proposed(sentence) == [sentence]


@pytest.mark.parametrize("sentence", OTHERS)
def test_what_is_none_is_not(sentence: str) -> None:
    assert not is_wish(sentence)
    assert proposed(sentence) == []


def test_sentences_are_taken_word_for_word_from_among_others() -> None:
    text = (
        "Ok, the 2-step server gave 94.0 tok/s. Never go below `--mem-fraction-static 0.88`!  What about 5 steps?\n"
        "- always write the log to /data/logs\n"
        "1. Don't use GPUs 4,5.\n"
    )
    assert proposed(text) == [
        "Never go below `--mem-fraction-static 0.88`!",
        "always write the log to /data/logs",
        "Don't use GPUs 4,5.",
    ]


def test_what_was_pasted_is_no_word_of_the_user() -> None:
    text = (
        "This failed:\n```\nERROR: you must never set --tp 3\nalways fails\n```\n"
        "> you should never do that\n"
        "[2026-12-01 02:00:00] WARNING: must not be negative\n"
        "ValueError: tp must not be 3\n"
        "$ never --say\n"
    )
    assert proposed(text) == []
    assert proposed("~~~\nnever closed\nNever do that.") == []


def test_many_and_long_ones_are_bounded() -> None:
    assert len(proposed("\n".join(f"Never do thing number {number}." for number in range(100)))) == MOST
    assert proposed("Never " + "x" * 500) == []
    assert proposed("a" * 10_000_000) == []
    assert proposed(("never " * 2_000 + ". ") * 500) == []


def test_the_same_wish_in_other_dress_has_the_same_key() -> None:
    assert key("Never restart the box!") == key("  never  RESTART the box.") == "never restart the box"
