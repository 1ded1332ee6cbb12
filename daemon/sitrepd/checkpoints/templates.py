"""Sections as text: one sandboxed Jinja template each; the user's own come first, and a broken one costs little."""

from __future__ import annotations

import dataclasses
import functools
import logging
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jinja2 import (
    BaseLoader,
    Environment,
    FileSystemLoader,
    Template,
    TemplateError,
    TemplateNotFound,
    TemplateSyntaxError,
    Undefined,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sitrepd.checkpoints import budget, quote, words
from sitrepd.checkpoints.budget import Part, Piece
from sitrepd.checkpoints.shorten import shorter
from sitrepd.paths import resource_dir

log = logging.getLogger(__name__)
_SUFFIX = ".md.j2"
_BARE = "section.md.j2"
_PAGE = "page.html.j2"


class _Missing(Undefined):
    """A name that is not there may be asked for, but not printed: a slip in a template is told, not passed over."""

    def __str__(self) -> str:
        return str(self._fail_with_undefined_error())


class Failure(Exception):
    """A template that does not work: its file name, the line if that is known, and why."""

    def __init__(self, template: str, line: int | None, why: str) -> None:
        where = f"line {line} of {template}" if line else template
        super().__init__(f"The template failed in {where}: {why.rstrip('.')}.")


class Templates:
    """`typeset` turns sections into text; made once, it notices when a template file changes."""

    def __init__(self, user_dir: Path | None = None) -> None:
        shipped = resource_dir("templates") / "checkpoint"
        self._shipped = _environment(FileSystemLoader(shipped))
        self._all = self._shipped
        if user_dir is not None:
            self._all = _environment(_UserFirst(user_dir / "checkpoint", shipped))

    def typeset(self, section: Mapping[str, Any]) -> Part:
        """A section (as stored: plain JSON) as text, item by item."""
        try:
            return _set(self._all, section)
        except Failure as failure:
            return _with_notice(self._otherwise(section), section, failure)

    def _otherwise(self, section: Mapping[str, Any]) -> Part:
        """By the shipped template; by none, where the items are not as it knows them (of another version)."""
        try:
            return _set(self._shipped, section)
        except Failure:
            return _set(self._shipped, {**section, "name": "section"})

    def page(self, title: str, body: str) -> str:
        """A page around the HTML of a checkpoint, by `page.html.j2`."""
        try:
            return self._all.get_template(_PAGE).render(title=title, body=body)
        except Exception:
            log.exception("the template %s failed", _PAGE)
            return self._shipped.get_template(_PAGE).render(title=title, body=body)


class _UserFirst(BaseLoader):
    """The user's file where there is one, also one that comes later, else the shipped one."""

    def __init__(self, user: Path, shipped: Path) -> None:
        self._user = user
        self._loaders = (FileSystemLoader(user), FileSystemLoader(shipped))

    def get_source(self, environment: Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        own, shipped = self._loaders
        if (self._user / template).is_file():
            return own.get_source(environment, template)
        text, name, is_fresh = shipped.get_source(environment, template)
        return text, name, lambda: is_fresh() and not (self._user / template).is_file()


def _environment(loader: BaseLoader) -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        loader=loader,
        autoescape=False,  # Markdown: told text is printed as told, and is fenced where it has several lines
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=_Missing,
    )
    environment.filters |= {
        name: getattr(module, name)
        for module, names in (
            (quote, ("told", "one_line", "listed", "fence", "row", "excerpt")),
            (words, ("size", "amount", "duration", "time_left", "progress", "metric", "value", "ref", "disk")),
        )
        for name in names
    }
    return environment


def _set(environment: ImmutableSandboxedEnvironment, section: Mapping[str, Any]) -> Part:
    template = _load(environment, section["name"])
    module = _guard(template, lambda: template.make_module({"section": SimpleNamespace(**section)}))
    head, item = getattr(module, "head", None), getattr(module, "item", None)
    if item is None:
        return budget.part(section, "", _whole(section, _guard(template, lambda: str(module))))
    title = _guard(template, head) if head is not None else f"## {quote.one_line(section['title'])}"
    texts = [_guard(template, functools.partial(item, one)).strip("\n") for one in section["items"]]
    pieces = [
        budget.piece(section, number, text, functools.partial(_shorter, item, section["items"][number]))
        for number, text in enumerate(texts)
        if text.strip()
    ]
    return budget.part(section, title.strip("\n"), pieces)


def _shorter(item: Callable[..., str], told: Mapping[str, Any]) -> list[str]:
    """The shorter forms by the same macro; one that cannot tell them costs only these forms."""
    try:
        return [item(form).strip("\n") for form in shorter(told)]
    except Exception:
        return []


def _load(environment: ImmutableSandboxedEnvironment, name: str) -> Template:
    try:
        return environment.get_template(name + _SUFFIX)
    except TemplateNotFound as error:
        if error.name != name + _SUFFIX:
            raise Failure(name + _SUFFIX, None, f"there is no template {error.name}") from error
        return environment.get_template(_BARE)
    except TemplateSyntaxError as error:
        raise Failure(Path(error.filename or error.name or name).name, error.lineno, str(error.message)) from error
    except (TemplateError, OSError, UnicodeError) as error:
        raise Failure(name + _SUFFIX, None, str(error)) from error


def _guard(template: Template, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except TemplateSyntaxError as error:
        raise Failure(Path(error.filename or error.name or "").name, error.lineno, str(error.message)) from error
    except Exception as error:
        raise Failure(template.name or "", _line(template, error), _why(error)) from error


def _line(template: Template, error: Exception) -> int | None:
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if frame.f_code.co_filename == template.filename:
            return template.get_corresponding_lineno(line)
    return None


def _why(error: Exception) -> str:
    return quote.one_line(f"{type(error).__name__}: {error}")[:300]


def _whole(section: Mapping[str, Any], text: str) -> list[Piece]:
    """A template without a macro `item` is kept or left out as a whole."""
    return [Piece(text.strip("\n"), section["title"], budget.rank(section, 0, {}), 0)] if text.strip() else []


def _with_notice(part: Part, section: Mapping[str, Any], failure: Failure) -> Part:
    text = f"- {failure} It is told in a plainer way."
    notice = Piece(text, "template failure", budget.rank(section, -1, {}), -1)
    return dataclasses.replace(part, pieces=(notice, *part.pieces))
