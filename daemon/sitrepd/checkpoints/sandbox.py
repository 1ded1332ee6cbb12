"""Where templates run: no way out to Python, no endless work, and told text that stays in its place."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from jinja2 import BaseLoader, BytecodeCache, Undefined, nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import BlockReference, Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sitrepd.checkpoints import quote, words

STEPS = 200_000
"""Rounds of loops that one section may take."""
_TEXT = 1_000_000
_WIDTH = 10_000
_WIDE = re.compile(r"[%{][^}\s]*\d{5,}")
_WIDTHS = ("center", "indent", "batch", "slice", "wordwrap", "truncate", "format")
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)


class _Missing(Undefined):
    """A name that is not there may be asked for, but not printed: a slip in a template is told, not passed over."""

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


def environment(loader: BaseLoader, cache: BytecodeCache | None = None) -> ImmutableSandboxedEnvironment:
    """Of the templates that are shipped."""
    return _with_filters(ImmutableSandboxedEnvironment(loader=loader, bytecode_cache=cache, **_OPTIONS))


def careful_environment(loader: BaseLoader) -> ImmutableSandboxedEnvironment:
    """Of the user's templates: a slip there costs neither time nor memory, and quotes text by itself."""
    made = _with_filters(_Careful(loader=loader, finalize=_in_place, **_OPTIONS))
    made.filters |= {name: _modest(made.filters[name]) for name in _WIDTHS}
    made.filters |= {"_counted": _counted, "_bounded": _bounded}
    return made


_OPTIONS: Mapping[str, Any] = {
    "autoescape": False,  # Markdown: told text is printed as told, and is fenced where it has several lines
    "trim_blocks": True,
    "lstrip_blocks": True,
    "undefined": _Missing,
}


def _with_filters(made: ImmutableSandboxedEnvironment) -> ImmutableSandboxedEnvironment:
    made.filters |= {
        name: getattr(module, name)
        for module, names in (
            (quote, ("told", "quoted", "cited", "one_line", "listed", "fence", "row", "excerpt", "clip")),
            (words, ("size", "amount", "duration", "time_left", "progress", "metric", "value", "ref", "disk", "age")),
            (words, ("as_of",)),
        )
        for name in names
    }
    return made


@contextmanager
def metered() -> Iterator[None]:
    """Within it the loops of the user's templates are counted, and end with SecurityError after STEPS rounds."""
    token = _left.set([STEPS])
    try:
        yield
    finally:
        _left.reset(token)


class _Careful(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%", "+"})

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Each loop counts its rounds, and each joined text its length."""
        template = super()._parse(source, name, filename)
        for loop in template.find_all(nodes.For):
            loop.iter = nodes.Filter(loop.iter, "_counted", [], [], None, None, lineno=loop.lineno)
        for output in template.find_all(nodes.Output):
            output.nodes = [_measured(one) for one in output.nodes]
        for assigned in template.find_all(nodes.Assign):
            assigned.node = _measured(assigned.node)
        template.set_environment(self)
        return template

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(getattr(obj, "__self__", None), str):
            _check_numbers((*args, *kwargs.values()))
        formatted = getattr(getattr(obj, "__wrapped__", None), "__self__", None)
        if isinstance(formatted, str):
            _check_format(formatted)
        result = super().call(context, obj, *args, **kwargs)
        return quote.Quoted(result) if isinstance(obj, Macro | BlockReference) else result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and abs(right) > 64:
            raise SecurityError("a power that large is not computed")
        if operator == "%" and isinstance(left, str):
            _check_format(left)
        if operator == "*" and any(
            isinstance(one, Sized) and len(one) * other > _TEXT
            for one, other in ((left, right), (right, left))
            if isinstance(other, int)
        ):
            raise SecurityError(f"a text of more than {_TEXT} characters is not made")
        return _bounded(super().call_binop(context, operator, left, right))


def _measured(node: Any) -> Any:
    return nodes.Filter(node, "_bounded", [], [], None, None, lineno=node.lineno) if _joins(node) else node


def _joins(node: Any) -> bool:
    return isinstance(node, nodes.Concat) or any(True for _ in node.find_all(nodes.Concat))


def _counted(values: Any) -> Any:
    """What a loop goes through, charged for at once."""
    left = _left.get()
    if left is None:
        return values
    if isinstance(values, Iterable) and not isinstance(values, Sized):
        values = list(islice(values, left[0] + 1))
    if isinstance(values, Sized):
        left[0] -= len(values)
    if left[0] < 0:
        raise SecurityError(f"the loops of a section may take {STEPS} rounds together")
    return values


def _bounded(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _TEXT:
        raise SecurityError(f"a text of more than {_TEXT} characters is not made")
    return value


def _modest(call: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, with no number in its arguments that would make it fill memory."""

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        _check_numbers((*args[1:], *kwargs.values()))
        if call.__name__ == "do_format":
            _check_format(str(args[0]))
        return call(*args, **kwargs)

    return checked


def _check_numbers(values: Iterable[Any]) -> None:
    for one in values:
        if isinstance(one, int) and one > _WIDTH:
            raise SecurityError(f"the number {one} is too large here")


def _check_format(text: str) -> None:
    if _WIDE.search(text):
        raise SecurityError("a format that wide is not printed")


def _in_place(value: Any) -> Any:
    """Told text of several lines would leave its place: it is put on one line where it was not quoted."""
    if isinstance(value, str) and not isinstance(value, quote.Quoted) and not value.isprintable():
        return quote.one_line(value) if "\n" in value.strip("\n") or "\r" in value else quote.clean_text(value)
    return value
