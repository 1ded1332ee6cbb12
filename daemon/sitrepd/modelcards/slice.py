"""The model card slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Noun
from sitrepd.modelcards import models as m
from sitrepd.modelcards.report import report
from sitrepd.slices import Slice

MODEL = Noun(
    "model", "models", "M", m.Model, m.ModelCreate, m.ModelUpdate, m.ModelPublic, "What a model's configuration says."
)

SLICE = Slice("modelcards", (MODEL,), report=report)
