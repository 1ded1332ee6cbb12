"""A checkpoint read back: the lines of a session file that say what its JSON says, and no more.

Facts keep the ids of the checkpoint as their keys. What it names but does not tell (left out by a budget, or never part
of it) is not made up: the reference is dropped, and `missing` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import simplejson
from pydantic import ValidationError

from sitrepd.errors import InvalidFact
from sitrepd.facts import Noun
from sitrepd.restoring import Line, reference, told
from sitrepd.sections import Document, Section
from sitrepd.slices import Registry
from sitrepd.storage import ids

VERSION = 1
_LAYOUT = frozenset({"order", "priority", "pinned"})  # where an item stands, not what it says
_WAYS_OFF = (KeyError, TypeError, ValueError, AttributeError, IndexError)


@dataclass
class Restored:
    """`lines` are those of a session file; `missing` is what the checkpoint does not tell, or not whole."""

    id: str
    lines: list[Line] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def document_in(text: str) -> Mapping[str, Any] | None:
    """The checkpoint that a file holds: as `sitrep checkpoint --json` prints it, or as the API answers it as a fact."""
    if not text.lstrip().startswith("{") or '"sections"' not in text:
        return None
    try:
        value = simplejson.loads(text, use_decimal=True, allow_nan=False)
    except simplejson.JSONDecodeError:
        return None
    if not isinstance(value, dict) or "type" in value:
        return None
    rendered = value.get("rendered", value)
    return rendered if isinstance(rendered, dict) and "sections" in rendered else None


def restore(told_document: Mapping[str, Any], registry: Registry) -> Restored:
    """All that the checkpoint says as lines, in the order of their ids; the first one opens the session."""
    document = _document(told_document)
    lines = _merged(_all_lines(document, registry))
    keyed = {line["key"] for line in lines if "key" in line}
    restored = Restored(document.id, missing=[*_left_out(told_document), *_shortened(document)])
    for line in lines:
        noun = registry.by_line.get(line["type"])
        if noun is not None:
            restored.missing += _cut(line, noun, keyed, registry, document.id)
    restored.lines = [*lines, _history(document, told_document)]
    return restored


def _document(value: Mapping[str, Any]) -> Document:
    try:
        document = Document.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidFact(f"this is no checkpoint of ours (see {place}: {first['msg']})") from error
    if document.version != VERSION:
        raise InvalidFact(f"this checkpoint has version {document.version}, and only version {VERSION} can be read")
    if (ids.parse_id(document.id) or ("", 0))[0] != "C":
        raise InvalidFact(f"{document.id!r} is no id of a checkpoint, such as C15")
    return document


# --- lines -------------------------------------------------------------------------------------------------------


def _all_lines(document: Document, registry: Registry) -> Iterator[Line]:
    """First what the slices make of their sections, then fields whose names are those of the facts, then mere names."""
    session = document.session
    yield {"type": "session", "key": session.id, "name": session.name}
    for part in registry.slices:
        for section in document.sections:
            yield from _guarded(section, part.restore(section))
    for section in document.sections:
        yield from _guarded(section, _plain(section, registry))
    for section in document.sections:
        yield from _guarded(section, _names(section, registry))


def _guarded(section: Section, lines: Iterable[Line]) -> Iterator[Line]:
    try:
        yield from lines
    except _WAYS_OFF as error:
        raise InvalidFact(f"section {section.name} is not as a checkpoint has it ({error!r})") from error


def _noun(key: Any, registry: Registry) -> Noun | None:
    parsed = ids.parse_id(key) if isinstance(key, str) else None
    noun = registry.by_prefix.get(parsed[0]) if parsed else None
    return noun if noun is not None and noun.portable else None


def _plain(section: Section, registry: Registry) -> Iterator[Line]:
    """Items that say which fact they are, and what of their fields the fact has under the same name.

    What passes by itself (a reading, a launch of another session) is no fact of this one.
    """
    for item in section.items:
        noun = _noun(item.get("id"), registry)
        if noun is None or not noun.writable or item.get("volatile"):
            continue
        fields = {name: item.get(name) for name in (*noun.fields, "at") if name not in _LAYOUT}
        refers = [name for name in noun.fields if noun.reference(name) is not None]
        yield told(type=noun.line_type, key=item["id"], **fields | {name: reference(item.get(name)) for name in refers})


def _names(section: Section, registry: Registry) -> Iterator[Line]:
    """Hosts and models of which the checkpoint tells no more than id and name, where another fact names them."""
    for item in section.items:
        for value in () if item.get("volatile") else item.values():
            if isinstance(value, dict) and value.keys() == {"id", "name"} and value["name"]:
                noun = _noun(value["id"], registry)
                if noun is not None:
                    yield {"type": noun.line_type, "key": value["id"], "name": value["name"]}


def _merged(lines: Iterable[Line]) -> list[Line]:
    """One line a fact, in the order of their ids; of what is said twice, the first counts."""
    by_key: dict[str, Line] = {}
    bare: list[Line] = []
    for line in lines:
        if "key" not in line:
            bare.append(line)
            continue
        into = by_key.setdefault(line["key"], line)
        if into is not line:
            _add(into, line)
    return [*sorted(by_key.values(), key=_place), *bare]


def _add(into: Line, more: Line) -> None:
    for name, value in more.items():
        own = into.setdefault(name, value)
        if isinstance(own, dict) and isinstance(value, dict):
            into[name] = value | own


def _place(line: Line) -> tuple[bool, str, int]:
    prefix, number = ids.parse_id(str(line["key"])) or ("", 0)
    return (line["type"] != "session", prefix, number)


def _history(document: Document, rendered: Mapping[str, Any]) -> Line:
    """The checkpoint itself, which the facts come from."""
    number = (ids.parse_id(document.id) or ("C", 0))[1]
    kept = {name: value for name, value in rendered.items() if name != "left_out"}
    told = {"number": number, "trigger": document.trigger, "rendered": kept}
    return {"type": "checkpoint", "key": document.id, "at": document.at, **told}


# --- what is not told ------------------------------------------------------------------------------------------


def _left_out(told_document: Mapping[str, Any]) -> Iterator[str]:
    """What it says of itself, as it stands there."""
    for line in told_document.get("left_out") or ():
        if isinstance(line, str) and not line.startswith("#"):
            yield line.removeprefix("- ")


def _shortened(document: Document) -> Iterator[str]:
    for section in document.sections:
        for item in section.items:
            if item.get("shortened") and not item.get("volatile"):
                yield f"{', '.join(item.get('ids') or [section.title])}: shortened there"


def _cited(value: Any, keyed: set[str], registry: Registry, of: str) -> Any:
    """Evidence that is another checkpoint's id reads as such, lest it name a fact of this store some day."""
    noun = _noun(value, registry)
    # H200 and its like are GPUs, and no host that is told elsewhere.
    return f"{value} of {of}" if noun is not None and noun.word != "host" and value not in keyed else value


def _cut(line: Line, noun: Noun, keyed: set[str], registry: Registry, of: str) -> Iterator[str]:
    """Drops references to facts that the checkpoint does not tell; where text may stand too, the words stay."""
    for name in noun.fields:
        mark = noun.reference(name)
        if mark is None or name not in line:
            continue
        value = line[name]
        if mark.or_text and not mark.words:
            line[name] = [_cited(one, keyed, registry, of) for one in value]
            continue
        values: Sequence[Any] = value if isinstance(value, list) else [value]
        kept = [one for one in values if one in keyed or _noun(one, registry) is None]
        gone = [str(one) for one in values if one not in kept]
        if gone:
            yield f"{line.get('key', line['type'])}: {name} {', '.join(gone)} is not told there"
        if isinstance(value, list):
            line[name] = kept
        elif gone:
            del line[name]
