"""Model cards: what a model's configuration says."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sitrepd.shapes import Count, FactIn, FactOut, ModelRef, Name, Shape, Text, example, partial
from sitrepd.storage.base import FactRow, big_field, json_field, link


class Model(FactRow, table=True):
    path: str | None = None
    name: str | None = None
    config: dict[str, Any] | None = json_field(nullable=True)
    weight_bytes: int | None = big_field()
    parameters: int | None = big_field()
    active_parameters: int | None = big_field()
    quantization: str | None = None
    kv_bytes_per_token: int | None = big_field()
    kv_tokens: int | None = big_field()
    target_id: int | None = link("model")
    note: str | None = None
    details: dict[str, Any] | None = json_field(nullable=True)
    digest: str | None = None


class ModelFields(Shape):
    path: Text | None = Field(None, min_length=1, max_length=4096, description="Folder or hub id.")
    name: Name | None = None
    config: dict[str, Any] | None = Field(None, description="What config.json says.")
    weight_bytes: Count | None = None
    parameters: Count | None = None
    active_parameters: Count | None = Field(None, description="Of a Mixture-of-Experts, those used for one token.")
    quantization: Text | None = None
    kv_bytes_per_token: Count | None = None
    kv_tokens: Count | None = None
    target: ModelRef | None = Field(None, description="The model that this one drafts for.")
    note: Text | None = None
    details: dict[str, Any] | None = Field(
        None, description="What was made of config.json and the headers of the weights: layers, experts, KV, draft."
    )


class ModelCreate(ModelFields, FactIn):
    model_config = example({"path": "/shared/kimi-k2.5-int4", "name": "Kimi-K2.5 INT4", "weight_bytes": 547000000000})


class ModelPublic(ModelFields, FactOut):
    digest: str | None = Field(None, description="SHA-256 of the config and the headers that it was made from.")


ModelUpdate = partial(ModelFields, "ModelUpdate")
