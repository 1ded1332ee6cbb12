"""The checkpoints slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.checkpoints import models as m
from sitrepd.facts import Noun
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sitrepd.runtime import Runtime
    from sitrepd.sections import Report, Section
    from sitrepd.services import Service

CHECKPOINT = Noun(
    "checkpoint", "checkpoints", "C", m.Checkpoint, m.CheckpointRecord, m.CheckpointRecord, m.CheckpointPublic,
    "The rendered status report, numbered, immutable.", writable=False, unsearched=("rendered",),
)  # fmt: skip
DELIVERY = Noun(
    "delivery", "deliveries", "", m.Delivery, m.DeliveryCreate, m.DeliveryUpdate, m.DeliveryPublic,
    "One hand-over of a checkpoint to an agent.", searched=False,
)  # fmt: skip


def _busy(runtime: Runtime) -> Sequence[BaseRoute]:
    from sitrepd.checkpoints.latest import fast_route

    return (fast_route(runtime),)


def _report(report: Report) -> Sequence[Section]:
    from sitrepd.checkpoints import echoes, presence

    return [*echoes.report(report), *presence.report(report)]


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.checkpoints.idle import Watch
    from sitrepd.checkpoints.presence import Presence

    return (Watch(runtime), Presence(runtime))


SLICE = Slice(
    "checkpoints",
    (CHECKPOINT, DELIVERY),
    routers=late("sitrepd.checkpoints.routes", "routers"),
    services=_services,
    busy=_busy,
    report=_report,
)
