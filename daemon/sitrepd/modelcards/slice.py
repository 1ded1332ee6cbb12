"""The model card slice, as the registry sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sitrepd.facts import Noun
from sitrepd.modelcards import models as m
from sitrepd.slices import Slice, late

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime
    from sitrepd.services import Service

MODEL = Noun(
    "model", "models", "M", m.Model, m.ModelCreate, m.ModelUpdate, m.ModelPublic,
    "What a model's configuration says.", unsearched=("details",),
)  # fmt: skip


def _services(runtime: Runtime) -> Sequence[Service]:
    from sitrepd.modelcards.watch import ModelCards

    return (ModelCards(runtime),)


SLICE = Slice(
    "modelcards",
    (MODEL,),
    routers=late("sitrepd.modelcards.routes", "routers"),
    services=_services,
    report=late("sitrepd.modelcards.report", "report"),
)
