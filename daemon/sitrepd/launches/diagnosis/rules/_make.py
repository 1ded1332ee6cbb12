"""A rule from its pattern as text."""

from __future__ import annotations

import re
from typing import Any

from sitrepd.launches.diagnosis.case import Rule, Text


def rule(
    category: Text, pattern: str, summary: Text, cause: Text, fix: Text, *, frames: str | None = None, **options: Any
) -> Rule:
    """`pattern` and `frames` are regular expressions."""
    return Rule(
        category,
        re.compile(pattern),
        summary,
        cause,
        fix,
        frames=re.compile(frames) if frames else None,
        **options,
    )
