"""Standing wishes in what a user writes, by plain rules: what they find is proposed, until somebody confirms it."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST = 8
_LONGEST = 400
_SHORTEST = 8
_READ = 20_000
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[A-Z0-9\"'`(/-])|\n+|;\s+")
_BULLET = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_PASTED = re.compile(r"^\s*(?:[>|$#%]|at |File \"|Traceback|\[?\d{4}-\d\d-\d\d|\w+Error\b|(?:INFO|WARN|ERROR|DEBUG)\b)")
_OPENING = re.compile(
    r"^(?:(?:please|also|and|but|so|ok(?:ay)?|then|well|no[,:]|yes[,:]|again[,:]?|note[:,]?|important[:,]?|"
    r"remember[:,]?(?: to)?|btw[,:]?|in general[,:]?|for now[,:]?|from now on[,:]?|as a rule[,:]?|"
    r"if [^,]{1,80},|when(?:ever)? [^,]{1,80},|before [^,]{1,80},|after [^,]{1,80},|unless [^,]{1,80},)\s*)+",
    re.IGNORECASE,
)
# What a wish begins with.
_WISH = re.compile(
    r"(?:never\b(?! ?mind)|always\b|don['’]?t\b(?! worry| (?:you|we|they)\b)|do not\b|must\b|prefer\b|avoid\b|"
    r"make sure\b|ensure\b|be sure\b|keep (?:in mind|the|all|every|it|using|to)\b|stick (?:to|with)\b|stop \w+ing\b|"
    r"only (?:use|change|touch|run|report|benchmark|test|measure|compare|launch|restart|commit|edit)\b|"
    r"no (?:more |other )?(?:[\w-]+ )?(?:hacks?|quantiz\w+|shortcuts?|workarounds?|restarts?|changes?|reboots?|sudo|"
    r"\w+ing\b)|under no circumstances\b|at no (?:time|point)\b|instead of\b|not? allowed\b|nothing that\b|"
    r"use only\b|leave [\w ]{1,40} alone\b|wait for (?:me|my)\b|ask (?:me )?(?:before|first)\b|"
    r"tell me (?:before|when)\b)",
    re.IGNORECASE,
)
# A wish that has a subject.
_SUBJECT = re.compile(
    r"\b(?:(?:you|we|it|this|that|they|everything|every \w+|all \w+|(?:the|any|each|no) [\w-]+(?: [\w-]+)?)\s+"
    r"(?:must(?:n['’]?t| not)?|should(?:n['’]?t| not)?|(?:are|is) (?:not|never) (?:allowed|to)|may not|"
    r"can(?:not|['’]t) be|(?:has|have) to (?:be|stay|remain|keep)|needs? to (?:be|stay|remain))\b|"
    r"\b(?:you|we)(?: will|['’]ll)? (?:never|always)\b|"
    r"\bI(?:['’]d| would)?(?: strongly| always| really)? (?:prefer|insist|require|want you to|need you to|"
    r"expect you to|don['’]?t want|do not want|never want|always want|would rather|['’]?d rather)\b|"
    r"\bunder no circumstances\b|\bfrom now on\b|\bno matter what\b|\bat all (?:costs|times)\b)",
    re.IGNORECASE,
)
_GUESS = re.compile(
    r"\b(?:must|should) (?:have|be (?:a|an|the|because|due|wrong|some|something)|mean)\b|\bshould work\b|"
    r"\bI (?:don['’]?t|do not) (?:know|think|see|understand|remember|care|mind|get|have)\b|\bdon['’]?t know\b|\bwhy\b",
    re.IGNORECASE,
)


def proposed(text: str) -> list[str]:
    """The sentences of a message that read as standing wishes, word for word, at most `MOST`."""
    found: list[str] = []
    for sentence in _sentences(_CODE.sub("\n", text[:_READ])):
        if is_wish(sentence) and sentence not in found:
            found.append(sentence)
    return found[:MOST]


def is_wish(sentence: str) -> bool:
    """An order or a preference, and neither a question nor a guess."""
    if sentence.rstrip("\"')*_ ").endswith("?") or _GUESS.search(sentence):
        return False
    rest = _OPENING.sub("", sentence)
    return bool(_WISH.match(rest.lstrip("*_\"'( ")) or _SUBJECT.search(sentence))


def key(text: str) -> str:
    """The same wish said again has the same key."""
    return " ".join(re.sub(r"[^\w]+", " ", text.casefold()).split())


def _sentences(text: str) -> Iterator[str]:
    for part in _END.split(text):
        sentence = _BULLET.sub("", part).strip()
        if _SHORTEST <= len(sentence) <= _LONGEST and not _PASTED.match(part):
            yield sentence
