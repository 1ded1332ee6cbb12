"""The hardware slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.facts import Noun
from sitrepd.hardware import models as m
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

HOST = Noun("host", "hosts", "H", m.Host, m.HostCreate, m.HostUpdate, m.HostPublic, "A machine with its GPUs.")


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.hardware.service import Hardware

    return (Hardware(runtime),)


def _busy(runtime: Runtime) -> Sequence[BaseRoute]:
    from sitrepd.hardware.scrape import metrics_route

    return (metrics_route(runtime),)


SLICE = Slice(
    "hardware",
    (HOST,),
    routers=late("sitrepd.hardware.routes", "routers"),
    services=_services,
    report=late("sitrepd.hardware.report", "report"),
    busy=_busy,
)
