"""The agents slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.agents import models as m
from sitrepd.facts import Noun
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

COMMAND = Noun(
    "command", "commands", "X", m.Command, m.CommandCreate, m.CommandUpdate, m.CommandPublic,
    "A shell command that an agent or a person ran, with what came of it.",
)  # fmt: skip
COMPACTION = Noun(
    "compaction", "compactions", "", m.Compaction, m.CompactionCreate, m.CompactionUpdate, m.CompactionPublic,
    "A client's own summary of its conversation, and what it lost.",
)  # fmt: skip


def _busy(runtime: Runtime) -> Sequence[BaseRoute]:
    from sitrepd.agents.door import hook_route
    from sitrepd.agents.mcp.door import mcp_route

    return (hook_route(runtime), mcp_route(runtime))


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.agents.call import Afterwards
    from sitrepd.agents.mcp.door import served
    from sitrepd.agents.warm import Warm

    return (Afterwards(runtime), served(runtime), Warm(runtime))


SLICE = Slice(
    "agents", (COMMAND, COMPACTION), routers=late("sitrepd.agents.routes", "routers"), services=_services, busy=_busy
)
