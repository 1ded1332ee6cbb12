"""What engines, supervisors and collectors of logs write in front of the text of a line."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from sitrepd.launches.engines._lines import plain

_STAMP = re.compile(r"\[(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?((?: [A-Z_]+\d+)*)\] ?")
_OLD_RANK = re.compile(r"\[(gpu_id=\d+|(?:TP|DP|PP|EP)\d+(?: \w+\d+)*)\] ")
_ACTOR = re.compile(r"\(([A-Za-z_]\w*[^()]{0,60}\bpid=\d+[^()]{0,60})\) ?")
_TORCH_RANK = re.compile(r"\[(rank\d+)\]:(?: (?=\S)| (?=\s)|)")
_LEVEL = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL) \d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? "
    r"(?:\[[^\]\s]{1,160}:\d+\]|[\w./-]{1,160}:\d+\]) ?"
)
_UVICORN = re.compile(r"(INFO|ERROR|WARNING|CRITICAL): {2,}")
_LOGGING = re.compile(
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3,6}(?: ?[-|]| )? *\[?(DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?"
    r"(?: *[-|] *| +)(?:[\w.:<>]{1,120} *(?:[-:|] |- ))?"
)
_BRACKETED = re.compile(r"\[(DEBUG|INFO|WARNING|ERROR|CRITICAL)\] ")
_OUTER = (
    re.compile(r"[A-Za-z][\w.-]{0,60} +\| (?=\S| {2})"),
    re.compile(r"\[?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)\]? (?:std(?:out|err) )?(?:[FP] )?"),
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]+ [\w.@/-]+\[\d+\]: "),
    re.compile(r"\[pod/[^\]]{1,200}\] "),
    re.compile(r"\[\d+\] (?=\[rank\d)"),
    re.compile(r"\d{1,4}: (?=\S|  )"),  # srun --label
    re.compile(r"\d{1,7}[ :\t](?=\[20\d\d-|  |[A-Za-z_.]{1,60}Error: )"),
    re.compile(r"[\w.-]{1,120} >> "),
    re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3,6} - [\w.]{1,120} - [A-Z]{4,8} - "),
    re.compile(r"[A-Z][a-z]{2} \d\d?, \d{4} @ \d\d:\d\d:\d\d(?:\.\d+)?\s+"),
    re.compile(r"(?:> |\.\.\.? |… ?)(?=\S)"),
)
_TORCH_LEVEL = re.compile(r"\[([EWIF])\d{3,4} [\d:.]+ [\w.]+:\d+\] ?")
_EMPHASISED = re.compile(r"\*\*([A-Za-z_][^*]*(?:Error|Exception)\b[^*]*)\*\*\s*")
"""An exception that its reporter has set in bold."""
_WRITTEN_ESCAPE = re.compile(r"ESC\[[\d;]*m")
_RANK = re.compile(r"(?:[A-Z_]+\d+ ?)+")
_MOST = 6
_JSON_KEYS = ("log", "message", "msg", "MESSAGE")


class Line(NamedTuple):
    """`key` names who wrote it ("" for nobody in particular), `stamped` that a log record begins here.

    `record` is the text as the engine wrote it, without what supervisors and collectors have put in front.
    """

    key: str
    stamped: bool
    level: str
    text: str
    record: str


def split(raw: str) -> Line:
    """A raw line taken apart; the indentation of what follows the prefixes stays."""
    text = plain(raw)
    if "ESC[" in text:
        text = _WRITTEN_ESCAPE.sub("", text)
    if text[:1] == "{":
        text = _from_json(text)
    if not text or text[0] == " ":
        return Line("", False, "", text, text)
    record = text
    key, level, stamped = "", "", False
    for _ in range(_MOST):
        found = _strip(text)
        if found is None:
            break
        text, who, how = found
        key = key or who
        if how is None and not stamped:
            record = text
        if how is not None:
            stamped, level = True, level or how
    emphasised = _EMPHASISED.fullmatch(text)
    return Line(key, stamped, level, emphasised[1] if emphasised else text, record)


def is_rank(key: str) -> bool:
    """Whether it names a rank as SGLang does: `TP1`, `DP0 TP3`."""
    return _RANK.fullmatch(key) is not None


def unwrapped(raw: str) -> str:
    """The line as the engine wrote it: without what supervisors and collectors of logs have put in front."""
    text = plain(raw)
    if text[:1] == "{":
        text = _from_json(text)
    for _ in range(_MOST):
        if not text or text[0] in "[( ":
            break
        found = next((found for outer in _OUTER if (found := outer.match(text))), None)
        if found is None:
            break
        text = text[found.end() :]
    return text


def _strip(text: str) -> tuple[str, str, str | None] | None:
    """The rest, who, and the level (None where no record begins); None when there is no prefix any more."""
    first = text[:1]
    if first == "[":
        found = _STAMP.match(text) or _OLD_RANK.match(text)
        if found:
            return text[found.end() :], found[1].strip(), ""
        found = _BRACKETED.match(text)
        if found:
            return text[found.end() :], "", found[1]
        found = _TORCH_RANK.match(text)
        if found:
            return text[found.end() :], found[1], None
        found = _TORCH_LEVEL.match(text)
        if found:
            return text[found.end() :], "", "ERROR" if found[1] in "EF" else "INFO"
    elif first == "(":
        found = _ACTOR.match(text)
        if found:
            return text[found.end() :], found[1], None
    elif first in "DIWECF":
        found = _LEVEL.match(text)
        if found:
            return text[found.end() :], "", found[1]
        found = _UVICORN.match(text)
        if found:
            return text[found.end() :], "", found[1]
    elif first.isdigit():
        found = _LOGGING.match(text)
        if found:
            return text[found.end() :], "", found[1]
    for outer in _OUTER:
        found = outer.match(text)
        if found:
            return text[found.end() :], "", None
    return None


def _from_json(text: str) -> str:
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(told, dict):
        for name in _JSON_KEYS:
            if isinstance(told.get(name), str):
                return str(told[name]).rstrip("\n")
    return text
