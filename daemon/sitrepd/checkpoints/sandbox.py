"""Where templates run: no way out to Python, no endless work, and told text that stays in its place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import BaseLoader, BytecodeCache, Undefined, nodes
from jinja2.runtime import BlockReference, Context, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sitrepd import figures
from sitrepd.checkpoints import meter, quote, words

_WIDTHS = ("center", "indent", "batch", "slice", "wordwrap", "truncate", "format")


class _Missing(Undefined):
    """A name that is not there may be asked for, but not printed: a slip in a template is told, not passed over."""

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


def environment(loader: BaseLoader, cache: BytecodeCache | None = None) -> ImmutableSandboxedEnvironment:
    """Of the templates that are shipped."""
    return _with_filters(ImmutableSandboxedEnvironment(loader=loader, bytecode_cache=cache, **_OPTIONS))


def careful_environment(loader: BaseLoader, page: bool = False) -> ImmutableSandboxedEnvironment:
    """Of the user's templates: a slip costs neither time nor memory there, and text, but for a page's, is quoted."""
    made = _with_filters(_Careful(loader=loader, finalize=None if page else _in_place, **_OPTIONS))
    del made.globals["lipsum"]
    made.filters = {name: _metered(name, call) for name, call in made.filters.items()}
    made.filters |= {"_counted": meter.counted, "_bounded": meter.bounded}
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
            (figures, ("short_text",)),
        )
        for name in names
    }
    return made


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
        of = getattr(obj, "__self__", None)
        meter.charge(of, meter.STEPS_A_CALL)
        if isinstance(of, str):
            name = getattr(obj, "__name__", "")
            meter.check_text_method(of, name, (*args, *kwargs.values()))
            args = tuple(meter.joinable(one, of) for one in args) if name == "join" else args
        formatted = getattr(getattr(obj, "__wrapped__", None), "__self__", None)
        if isinstance(formatted, str):
            meter.check_format(formatted)
        result = meter.made(super().call(context, obj, *args, **kwargs))
        return quote.Quoted(result) if isinstance(obj, Macro | BlockReference) else result

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        meter.charge()
        meter.check_operands(operator, left, right)
        return meter.made(super().call_binop(context, operator, left, right))


def _measured(node: Any) -> Any:
    return nodes.Filter(node, "_bounded", [], [], None, None, lineno=node.lineno) if _joins(node) else node


def _joins(node: Any) -> bool:
    return isinstance(node, nodes.Concat) or any(True for _ in node.find_all(nodes.Concat))


def _metered(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, charged for by what it goes through, with nothing in its arguments that would make it fill memory."""
    first = 1 if hasattr(call, "jinja_pass_arg") else 0

    @functools.wraps(call)
    def checked(*args: Any, **kwargs: Any) -> Any:
        value, *others = args[first:] if len(args) > first else (None,)
        meter.charge(value)
        if name in _WIDTHS:
            meter.check_numbers((*others, *kwargs.values()))
        if name == "format":
            meter.check_format(str(value))
        if name == "replace" and len(others) > 1:
            meter.check_replaced(value, others[0], others[1])
        if name == "join":
            value = meter.joinable(value, others[0] if others else kwargs.get("d", ""))
        return meter.made(call(*args[:first], value, *others, **kwargs))

    return checked


def _in_place(value: Any) -> Any:
    """Told text of several lines would leave its place: it is put on one line where it was not quoted."""
    if isinstance(value, str) and not isinstance(value, quote.Quoted) and not value.isprintable():
        return quote.one_line(value) if "\n" in value.strip("\n") or "\r" in value else quote.clean_text(value)
    return value
