"""Sections as text: one sandboxed Jinja template each; the user's own come first, and a broken one costs little."""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
import traceback
from collections.abc import Callable, Collection, Mapping
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
)

from sitrepd.checkpoints import budget, meter, quote, sandbox
from sitrepd.checkpoints.budget import Part, Piece
from sitrepd.checkpoints.compiled import compiled
from sitrepd.checkpoints.kept_texts import KeptTexts
from sitrepd.checkpoints.shorten import shorter
from sitrepd.paths import resource_dir

log = logging.getLogger(__name__)
_SUFFIX = ".md.j2"
_BARE = "section.md.j2"
_PAGE = "page.html.j2"
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# What a template may set of its section.
_SET: Mapping[str, type] = {
    "title": str, "order": int, "priority": int, "pinned": bool, "items": list, "more": str,
}  # fmt: skip


class Failure(Exception):
    """A template that does not work: its file name, the line if that is known, and why."""

    def __init__(self, template: str, line: int | None, why: str) -> None:
        where = f"line {line} of {template}" if line else template
        super().__init__(f"The template failed in {where}: {why.rstrip('.')}.")


class Templates:
    """Turns sections into text; made once, it notices when a template file changes."""

    def __init__(self, user_dir: Path | None = None, cache_dir: Path | None = None) -> None:
        shipped = resource_dir("templates") / "checkpoint"
        kept = compiled(cache_dir)
        self._shipped = self._all = self._pages = sandbox.environment(FileSystemLoader(shipped), kept)
        self._user = user_dir / "checkpoint" if user_dir is not None else None
        self._kept = KeptTexts(shipped, _SUFFIX)
        self._names = {path.name.removesuffix(_SUFFIX) for path in shipped.glob(f"*{_SUFFIX}")}
        if self._user is not None:
            self._all = sandbox.careful_environment(_UserFirst(self._user, shipped))
            self._pages = sandbox.careful_environment(_UserFirst(self._user, shipped), page=True)

    def typeset_all(self, rendered: Mapping[str, Any], terse: bool = False) -> list[Part]:
        """All sections of a checkpoint, and those that the user's templates add, in their order."""
        sections = rendered["sections"]
        self._kept.look()
        added = [_new_section(name) for name in self._added({one["name"] for one in sections})]
        about = _About(rendered, terse)
        return sorted((self.typeset(one, about) for one in (*sections, *added)), key=lambda part: part.order)

    def typeset(self, section: Mapping[str, Any], about: _About | None = None) -> Part:
        """A section (as stored: plain JSON) as text, item by item."""
        about = about or _About({"sections": [section]})
        section = {**section, "terse": about.terse}
        try:
            if self._all is self._shipped:
                return self._kept.part(section, lambda: _set(self._shipped, section, about, self._kept.text))
            with meter.metered():
                return _set(self._all, section, about, _anew, own=True)
        except Failure as failure:
            return _with_notice(self._otherwise(section, about), section, failure)

    def _otherwise(self, section: Mapping[str, Any], about: _About) -> Part:
        """By the shipped template; by none, where the items are not as it knows them (of another version)."""
        try:
            return _set(self._shipped, section, about, _anew)
        except Failure:
            return _set(self._shipped, {**section, "name": "section"}, about, _anew)

    def _added(self, known: Collection[str]) -> list[str]:
        """Names of the user's templates that are of no section that there is."""
        if self._user is None:
            return []
        names = {path.name.removesuffix(_SUFFIX) for path in self._user.glob(f"*{_SUFFIX}")}
        return sorted(name for name in names - self._names - set(known) if not name.startswith("_"))

    def page(self, title: str, body: str) -> str:
        """A page around the HTML of a checkpoint, by `page.html.j2`."""
        try:
            with meter.metered():
                return self._pages.get_template(_PAGE).render(title=title, body=body)
        except Exception:
            log.exception("the template %s failed", _PAGE)
            return self._shipped.get_template(_PAGE).render(title=title, body=body)


class _About:
    """What a template may look at besides its own section: the checkpoint, and all sections by name."""

    def __init__(self, rendered: Mapping[str, Any], terse: bool = False) -> None:
        self.terse = terse
        self.sections = {one["name"]: SimpleNamespace(**one) for one in rendered["sections"]}
        self.checkpoint = {name: value for name, value in rendered.items() if name != "sections"}


def _new_section(name: str) -> dict[str, Any]:
    """A section that a template of the user adds, as it is placed if the template does not say so."""
    title = name.replace("_", " ").capitalize()
    return {"name": name, "title": title, "order": 155, "priority": 50, "pinned": False} | {
        "items": [],
        "data": {},
        "more": None,
    }


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


def _anew(_section: Mapping[str, Any], _item: Mapping[str, Any], make: Callable[[], str]) -> str:
    return make()


def _set(
    environment: Environment, section: Mapping[str, Any], about: _About,
    known: Callable[[Mapping[str, Any], Mapping[str, Any], Callable[[], str]], str], own: bool = False,
) -> Part:  # fmt: skip
    """The section by its template; `known` gives the text of an item, or has it made."""
    template = _load(environment, section["name"])
    context = {"section": SimpleNamespace(**section), "sections": about.sections, "checkpoint": about.checkpoint}
    module = _guard(template, lambda: template.make_module(context))
    section = _placed(template, module, section)
    head, item = getattr(module, "head", None), getattr(module, "item", None)
    check = functools.partial(_whole_blocks, template) if own else str
    if item is None:
        text = check(_guard(template, lambda: str(module)))
        return budget.part(section, "", _whole(section, text))
    title = _guard(template, head) if head is not None else f"## {quote.one_line(section['title'])}"

    def whole(one: Mapping[str, Any]) -> str:
        return known(section, one, lambda: check(_guard(template, functools.partial(item, one)).strip("\n")))

    def shorter_forms(one: Mapping[str, Any]) -> list[str]:
        return _shorter(lambda form: known(section, form, lambda: item(form).strip("\n")), one)

    pieces = [
        budget.piece(section, number, told, functools.partial(shorter_forms, one))
        for number, one in enumerate(section["items"])
        if (told := whole(one)).strip()
    ]
    return budget.part(section, check(title.strip("\n")), pieces)


def _placed(template: Template, module: Any, section: Mapping[str, Any]) -> Mapping[str, Any]:
    """The section with the place, the weight and the items that the template sets for it."""
    told = {name: getattr(module, name) for name in _SET if name in vars(module)}
    for name, value in told.items():
        kinds = _SET[name]
        if not isinstance(value, kinds) or (kinds is int and isinstance(value, bool)):
            raise Failure(template.name or "", None, f"it sets {name} to {value!r}, which is none")
    if not all(isinstance(one, Mapping) for one in told.get("items", ())):
        raise Failure(template.name or "", None, "it sets items to what are no items of sections")
    return {**section, **told} if told else section


def _whole_blocks(template: Template, text: str) -> str:
    """The text, unless it leaves a block of code open, which would swallow what follows."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark is not None:
            fence = (mark[1] if not fence else "") if not fence or _closes(fence, line) else fence
    if fence:
        raise Failure(template.name or "", None, "it leaves a block of code open")
    return text


def _closes(fence: str, line: str) -> bool:
    told = line.strip()
    return told[:1] == fence[0] and set(told) == {fence[0]} and len(told) >= len(fence)


def _shorter(text: Callable[[Mapping[str, Any]], str], told: Mapping[str, Any]) -> list[str]:
    """The shorter forms by the same macro; one that cannot tell them costs only these forms."""
    try:
        with meter.metered():
            return [text(form) for form in shorter(told)]
    except Exception:
        return []


def _load(environment: Environment, name: str) -> Template:
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
