"""What the templates of users may take of time and memory: each call is charged, and too much ends with an error."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jinja2.exceptions import SecurityError

STEPS = 200_000
"""Rounds of loops that one section may take; a call counts as some, and one that looks through much as more."""
_SECONDS = 5.0
_TEXT = 1_000_000
_ALL_TEXT = 20 * _TEXT
_ITEMS = 200_000
_BITS = 20_000
_ITEMS_A_STEP = 20
STEPS_A_CALL = 5
_CHARACTERS_A_STEP = 10_000
_WIDTH = 10_000
_WIDE = re.compile(r"[%{][^}\s]*\d{5,}")


class _Left:
    """What is left to a section. The time is that of its thread alone, so that a busy machine makes no difference."""

    def __init__(self) -> None:
        self.steps, self.characters, self.until = STEPS, _ALL_TEXT, time.thread_time() + _SECONDS


_left: ContextVar[_Left | None] = ContextVar("left", default=None)


@contextmanager
def metered() -> Iterator[None]:
    """Within it loops and calls of the user's templates are counted; too many of them end with SecurityError."""
    token = _left.set(_Left())
    try:
        yield
    finally:
        _left.reset(token)


def charge(value: Any = None, steps: int = 1) -> None:
    """So many steps, and more where the call goes through a value with many items or characters."""
    left = _left.get()
    if left is None:
        return
    size = len(value) if isinstance(value, Sized) else 0
    left.steps -= steps + size // (_CHARACTERS_A_STEP if isinstance(value, str) else _ITEMS_A_STEP)
    if left.steps < 0:
        raise SecurityError(f"the loops of a section may take {STEPS} rounds together")
    if time.thread_time() > left.until:
        raise SecurityError(f"a section may take {_SECONDS:.0f} s")


def counted(values: Any) -> Any:
    """What a loop goes through, charged for at once."""
    left = _left.get()
    if left is None:
        return values
    if isinstance(values, Iterable) and not isinstance(values, Sized):
        values = list(islice(values, left.steps + 1))
    if isinstance(values, Sized):
        left.steps -= len(values)
    charge()
    return values


def bounded(value: Any) -> Any:
    """The value, unless it is a text or a list that is too long."""
    if isinstance(value, str) and len(value) > _TEXT:
        raise SecurityError(f"a text of more than {_TEXT} characters is not made")
    if isinstance(value, list | tuple | Mapping) and len(value) > _ITEMS:
        raise SecurityError(f"a list of more than {_ITEMS} items is not made")
    return value


def made(value: Any) -> Any:
    """A result, of which the characters of all together are counted too."""
    left = _left.get()
    if left is not None and isinstance(value, str):
        left.characters -= len(value)
        if left.characters < 0:
            raise SecurityError(f"a section may make {_ALL_TEXT} characters of text")
    return bounded(value)


# --- before it is computed ---------------------------------------------------------------------------------------


def check_operands(operator: str, left: Any, right: Any) -> None:
    numbers = isinstance(left, int) and isinstance(right, int)
    if operator == "**" and (abs(right) > 64 or (numbers and left.bit_length() * abs(right) > _BITS)):
        raise SecurityError("a power that large is not computed")
    if operator == "%" and isinstance(left, str):
        check_format(left)
    if operator == "*" and numbers and left.bit_length() + right.bit_length() > _BITS:
        raise SecurityError("a number that large is not computed")
    if operator == "*":
        _check_repeated(left, right)
        _check_repeated(right, left)


def _check_repeated(one: Any, times: Any) -> None:
    if isinstance(times, int) and isinstance(one, str) and len(one) * times > _TEXT:
        raise SecurityError(f"a text of more than {_TEXT} characters is not made")
    if isinstance(times, int) and isinstance(one, Sized) and not isinstance(one, str) and len(one) * times > _ITEMS:
        raise SecurityError(f"a list of more than {_ITEMS} items is not made")


def check_text_method(text: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Refuses what would make far more text than there was; these two have no use in templates."""
    check_numbers(arguments)
    if name in ("expandtabs", "translate"):
        raise SecurityError(f"{name} is not called in templates")
    if name == "replace" and len(arguments) > 1:
        check_replaced(text, arguments[0], arguments[1])


def check_replaced(text: Any, old: Any, new: Any) -> None:
    if len(str(text)) + str(text).count(str(old)) * len(str(new)) > 2 * _TEXT:
        raise SecurityError(f"a text of more than {_TEXT} characters is not made")


def joinable(values: Any, between: Any = "") -> Any:
    """What is to be joined, as a list where it was not looked through yet."""
    if not isinstance(values, Iterable):
        return values
    parts = values if isinstance(values, Sized) else bounded(list(islice(values, _ITEMS + 1)))
    if sum(len(str(one)) + len(str(between)) for one in parts) > 2 * _TEXT:
        raise SecurityError(f"a text of more than {_TEXT} characters is not made")
    return parts


def check_numbers(values: Iterable[Any]) -> None:
    for one in values:
        if isinstance(one, int) and one > _WIDTH:
            raise SecurityError(f"the number {one} is too large here")


def check_format(text: str) -> None:
    if _WIDE.search(text):
        raise SecurityError("a format that wide is not printed")
