"""Words of summaries: those that carry no meaning, that say no, that are numbers, and that stand for one another."""

from __future__ import annotations

NUMBERS = (
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip
STOP = frozenset({
    "a", "an", "the", "of", "to", "in", "on", "at", "by", "for", "from", "with", "and", "or", "is", "are",
    "was", "were", "be", "been", "being", "it", "its", "this", "that", "these", "those", "as", "when", "then",
    "than", "so", "same", "will", "would", "should", "can", "could", "has", "have", "had", "do", "does", "did",
    "which", "who", "whose", "there", "here", "into", "out", "up", "per", "via",
})  # fmt: skip
NO = frozenset({
    "no", "non", "not", "never", "none", "without", "don't", "dont", "doesn't", "isn't", "can't", "cannot", "won't",
    "avoid", "forbidden", "nothing", "neither", "nor",
})  # fmt: skip
# What summaries say for one another in this trade.
SAME = {
    one: group[0]
    for group in (
        ("benchmark", "bench", "measure", "measurement"), ("ready", "loaded", "online"),
        ("complete", "finish", "fill"), ("optimum", "optimal", "best"),
        ("reject", "rule", "drop", "abandon", "discard"), ("differ", "mismatch", "diverge"),
        ("confirm", "verify", "validate"), ("keep", "stay", "retain"),
    )
    for one in group
}  # fmt: skip
