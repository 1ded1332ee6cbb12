"""The claims slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.claims import models as m
from sitrepd.facts import Noun
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

CLAIM = Noun(
    "claim", "claims", "Q", m.Claim, m.ClaimCreate, m.ClaimUpdate, m.ClaimPublic,
    "Who uses which GPUs or ports of a host, and until when.",
    portable=False,
)  # fmt: skip


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.claims.service import Claims

    return (Claims(runtime),)


SLICE = Slice(
    "claims",
    (CLAIM,),
    routers=late("sitrepd.claims.routes", "routers"),
    services=_services,
    report=late("sitrepd.claims.report", "report"),
)
