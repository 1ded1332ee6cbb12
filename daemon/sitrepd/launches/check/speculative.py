"""What SGLang demands of the flags of speculative decoding among themselves, and what it changes of them."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.engines._flags import text, whole
from sitrepd.launches.engines.base import CommandFacts

_EAGLE = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")
_TREE_BACKENDS = ("flashinfer", "fa3", "triton")
_NAMES = ("speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens")


def check_speculative(subject: Subject, _: Look) -> Iterable[Check]:
    if subject.words:
        yield from constraints(subject.facts)


def constraints(facts: CommandFacts) -> Iterable[Check]:
    """Of SGLang 0.5.9 to 0.5.23."""
    algorithm = str(facts.speculative.get("speculative_algorithm") or "").upper()
    steps, topk, draft = (whole(facts.flags, name) for name in _NAMES)
    if not algorithm:
        yield from _without_algorithm(facts)
        return
    if whole(facts.flags, "max_running_requests") is None:
        yield _note(
            "SGLang lowers the running requests to 48 with speculative decoding unless the command says a number.",
            "Add --max-running-requests N for another limit.",
        )
    if algorithm in _EAGLE:
        yield from _numbers(steps, topk, draft)
        yield from _backends(facts, topk)
    if "speculative_use_rejection_sampling" in facts.flags:
        yield from _rejection(algorithm, topk)


def _without_algorithm(facts: CommandFacts) -> Iterable[Check]:
    told = [name for name in facts.flags if name.startswith("speculative_") and name != "speculative_algorithm"]
    told = [name for name in told if not name.startswith("speculative_algo")]
    if told:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in told)
        yield _warning(
            f"{flags} {'have' if len(told) > 1 else 'has'} no effect without --speculative-algorithm.",
            "Add --speculative-algorithm EAGLE3, or what the draft is made for.",
        )


def _numbers(steps: int | None, topk: int | None, draft: int | None) -> Iterable[Check]:
    if steps is None:
        if topk is not None or draft is not None:
            yield _error(
                "--speculative-eagle-topk and --speculative-num-draft-tokens are refused without "
                "--speculative-num-steps (AssertionError).",
                "Give all three, or none for SGLang's own choice.",
            )
        return
    if topk is None or draft is None:
        yield _warning(
            "--speculative-num-steps wants --speculative-eagle-topk and --speculative-num-draft-tokens beside it.",
            f"Add --speculative-eagle-topk 1 --speculative-num-draft-tokens {steps + 1}.",
        )
        return
    if topk == 1 and draft != steps + 1:
        yield _warning(
            f"With --speculative-eagle-topk 1, SGLang makes {steps + 1} draft tokens of the {draft} that are asked: "
            "steps + 1.",
            f"Write --speculative-num-draft-tokens {steps + 1}, or --speculative-num-steps {max(1, draft - 1)}.",
        )
    candidates = topk + (steps - 1) * topk * topk
    if topk > 1 and candidates < draft - 1:
        yield _error(
            f"{steps} steps with top-k {topk} give {candidates} candidates; {draft} draft tokens want {draft - 1}.",
            f"Write --speculative-num-draft-tokens {candidates + 1} or less, or more steps.",
        )


def _backends(facts: CommandFacts, topk: int | None) -> Iterable[Check]:
    if topk is None or topk <= 1:
        return
    backend = text(facts.flags, "attention_backend", "decode_attention_backend")
    page = whole(facts.flags, "page_size") or 1
    if backend == "trtllm_mha":
        yield _error(
            "The attention backend trtllm_mha takes top-k 1 only.",
            "Write --speculative-eagle-topk 1, or another --attention-backend.",
        )
    elif page > 1 and backend is not None and backend not in _TREE_BACKENDS:
        yield _error(
            f"Top-k {topk} with pages of {page} tokens works with {', '.join(_TREE_BACKENDS)}, not with {backend}.",
            "Write --page-size 1, --speculative-eagle-topk 1, or another --attention-backend.",
        )


def _rejection(algorithm: str, topk: int | None) -> Iterable[Check]:
    if algorithm not in ("EAGLE", "EAGLE3", "NEXTN"):
        yield _error(f"--speculative-use-rejection-sampling does not go with {algorithm}.", "Leave it out.")
    elif topk is not None and topk != 1:
        yield _error(
            f"--speculative-use-rejection-sampling wants top-k 1, not {topk}.", "Write --speculative-eagle-topk 1."
        )


def _note(text: str, fix: str) -> Check:
    return Check(name="speculative", level="note", text=text, fix=fix)


def _warning(text: str, fix: str) -> Check:
    return Check(name="speculative", level="warning", text=text, fix=fix)


def _error(text: str, fix: str) -> Check:
    return Check(name="speculative", level="error", text=text, fix=fix)
