"""The checkpoints slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.checkpoints import models as m
from sitrepd.facts import Noun
from sitrepd.slices import Slice

CHECKPOINT = Noun(
    "checkpoint", "checkpoints", "C", m.Checkpoint, m.CheckpointRecord, m.CheckpointRecord, m.CheckpointPublic,
    "The rendered status report, numbered, immutable.", writable=False,
)  # fmt: skip
DELIVERY = Noun(
    "delivery", "deliveries", "", m.Delivery, m.DeliveryCreate, m.DeliveryUpdate, m.DeliveryPublic,
    "One hand-over of a checkpoint to an agent.",
)  # fmt: skip

SLICE = Slice("checkpoints", (CHECKPOINT, DELIVERY))
