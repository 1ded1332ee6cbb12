"""What a budget left out or shortened, named as fully as there is room for, with the call that gives it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sitrepd.checkpoints.budget import Kept, Part

_NAMED = 12
LEAST = 120
"""Characters that the tersest form needs at the most."""


@dataclass(frozen=True, slots=True)
class _Missing:
    """Of one section: what is not shown, and what is shown in a shorter form."""

    part: Part
    gone: list[str]
    shortened: list[str]

    @property
    def count(self) -> int:
        return len(self.gone) + self.part.earlier


def left_out(parts: Sequence[Part], kept: Kept, most: int | None) -> str:
    """The fullest of the forms that has at most `most` characters; "" if all is shown whole."""
    missing = [
        _Missing(
            part,
            [piece.name for number, piece in enumerate(part.pieces) if number not in shown],
            [part.pieces[number].name for number, level in sorted(shown.items()) if level],
        )
        for part, shown in zip(parts, kept, strict=True)
    ]
    missing = [one for one in missing if one.count or one.shortened]
    if not missing:
        return ""
    forms = _forms(missing)
    text = next(forms)
    while most is not None and len(text) > most:
        shorter = next(forms, None)
        if shorter is None:
            break
        text = shorter
    return text


def _forms(missing: Sequence[_Missing]) -> Iterator[str]:
    yield _by_name(missing)
    yield _on_one_line(missing)
    yield _by_section(missing)
    yield _in_all(missing)


def _by_name(missing: Sequence[_Missing]) -> str:
    lines = [
        f"- {one.part.title}: {_names(one.gone, one.part.earlier)}{_call(one.part)}" for one in missing if one.count
    ]
    short = _shortened(missing)
    if short:
        lines.append(f"- Shortened, where it says […]: {', '.join(short)}")
    return "\n".join(["## Left out (`sitrep show ID` gives one, `sitrep checkpoint --budget full` most)", *lines])


def _names(names: Sequence[str], earlier: int) -> str:
    told = list(dict.fromkeys(names))
    shown = [*told[:_NAMED], *([f"{len(told) - _NAMED} more"] if len(told) > _NAMED else [])]
    return ", ".join([*shown, *([f"{earlier} earlier ones"] if earlier else [])])


def _on_one_line(missing: Sequence[_Missing]) -> str:
    told = list(dict.fromkeys(name for one in missing for name in one.gone))
    earlier = [
        f"{one.part.earlier} earlier of {one.part.title}{_call(one.part)}" for one in missing if one.part.earlier
    ]
    short = _shortened(missing)
    parts = [
        f"Left out: {', '.join([*told, *earlier])}" if told or earlier else "",
        f"shortened: {', '.join(short)}" if short else "",
    ]
    text = "; ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]} (`sitrep show ID` gives one)."


def _by_section(missing: Sequence[_Missing]) -> str:
    counts = [f"{one.count} of {one.part.title}{_call(one.part)}" for one in missing if one.count]
    short = len(_shortened(missing))
    told = [f"Left out: {'; '.join(counts)}"] if counts else []
    return "; ".join([*told, *([f"{short} shortened (`sitrep show ID`)"] if short else [])]) + "."


def _in_all(missing: Sequence[_Missing]) -> str:
    """At most LEAST characters, whatever there is."""
    total, short = sum(one.count for one in missing), len(_shortened(missing))
    told = ", ".join([*([f"{total} items left out"] if total else []), *([f"{short} shortened"] if short else [])])
    return f"{told[0].upper()}{told[1:]}; `sitrep checkpoint --budget full` gives them."


def _shortened(missing: Sequence[_Missing]) -> list[str]:
    return list(dict.fromkeys(name for one in missing for name in one.shortened))


def _call(part: Part) -> str:
    return f" (`{part.more}`)" if part.more else ""
