"""Values that nobody can guess: names, numbers, flags and sentences, each of which is used once."""

from __future__ import annotations

from decimal import Decimal
from random import Random

_ONSETS = (
    "b",
    "br",
    "d",
    "f",
    "g",
    "gl",
    "h",
    "j",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
_FILLERS = (
    "batch", "cache", "capture", "chunk", "decode", "draft", "expert", "graph", "kernel", "layer", "margin", "offset",
    "overlap", "page", "prefill", "radix", "rank", "request", "router", "schedule", "shard", "stream", "verify", "warp",
)  # fmt: skip
_VERBS = ("measure", "keep", "avoid", "compare", "repeat", "watch", "lower", "raise", "check", "trace")


class Words:
    """A source of values; two of one seed give the same ones."""

    def __init__(self, seed: int | str) -> None:
        self.random = Random(str(seed))
        self._used: set[str] = set()

    def name(self) -> str:
        """`trovaik-8c41`: pronounceable, and never the part of another."""
        while True:
            parts = [self.random.choice(_ONSETS) + self.random.choice(_VOWELS) for _ in range(3)]
            told = f"{''.join(parts)}-{self.random.randrange(16**4):04x}"
            if told not in self._used:
                self._used.add(told)
                return told

    def number(self, low: int = 1_000, high: int = 99_999) -> int:
        return self.random.randrange(low, high)

    def decimal(self, low: int, high: int, places: int) -> Decimal:
        """A number with just so many decimals, zeros at its end among them."""
        scaled = self.random.randrange(low * 10**places, high * 10**places)
        return Decimal(scaled).scaleb(-places)

    def flag(self) -> str:
        return f"--{self.name().replace('-', '-x')} {self.number()}"

    def path(self, end: str = "") -> str:
        return f"/data/{self.name()}/{self.random.choice(_FILLERS)}_{self.number()}{end}"

    def sentence(self, length: int) -> str:
        """About so many characters, with one name and one number that nothing else has."""
        parts = [self.random.choice(_VERBS).capitalize(), "the", self.random.choice(_FILLERS), self.name()]
        while len(" ".join(parts)) < length - 12:
            parts.append(self.random.choice(_FILLERS))
        return f"{' '.join(parts)} at {self.number()}."

    def one_of(self, *values: str) -> str:
        return self.random.choice(values)
