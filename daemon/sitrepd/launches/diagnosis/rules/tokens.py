"""Numbers of tokens that the model's tables do not have."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Rule
from sitrepd.launches.diagnosis.rules._make import rule

RULES: tuple[Rule, ...] = (
    rule(
        "scheduler_exception",
        r"IndexError: index out of range in self",
        "A token id outside the model's vocabulary ended the scheduler",
        "The embedding was asked for a row that it has not: an id from a request (input_ids are not checked), from a "
        "tokenizer with more tokens than the model, or from a draft with another vocabulary.",
        "Compare vocab_size of the model's config.json with what is sent: the tokenizer of this very model, input_ids "
        "below vocab_size. On a GPU the same ends in a device-side assert.",
        frames=r"in embedding$|vocab_parallel_embedding",
        on="block",
    ),
)
