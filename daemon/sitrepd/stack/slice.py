"""The stack slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.facts import Noun
from sitrepd.slices import Slice, late
from sitrepd.stack import models as m

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

STACK = Noun(
    "stack", "stacks", "K", m.Stack, m.StackCreate, m.StackUpdate, m.StackPublic, "The software that a launch ran on."
)


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.stack.service import Stacks

    return (Stacks(runtime),)


SLICE = Slice(
    "stack",
    (STACK,),
    routers=late("sitrepd.stack.routes", "routers"),
    services=_services,
    report=late("sitrepd.stack.report", "report"),
    restore=late("sitrepd.stack.restore", "restore"),
)
