"""Building blocks of the shapes that the API speaks; the portable session file has the same fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    WithJsonSchema,
    create_model,
)

from sitrepd.decimals import to_json


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError("a number is wanted")
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("a time in the years 1 to 9999 of UTC is wanted") from error


Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]
Text = Annotated[str, Strict()]
Name = Annotated[str, Strict(), Field(min_length=1, max_length=500)]
Whole = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Flag = Annotated[bool, Strict()]
# A number as it was told: 94.0 stays 94.0 and 1421.7 stays 1421.7.
Number = Annotated[
    Decimal,
    BeforeValidator(_number),
    Field(allow_inf_nan=False),
    PlainSerializer(to_json, return_type=float | int | str, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "integer"}]}, mode="serialization"),
]
Better = Literal["higher", "lower"]


@dataclass(frozen=True)
class RefTo:
    """Marks a field that holds the public id of a fact; with `or_text`, anything else is kept as told."""

    words: tuple[str, ...]
    or_text: bool = False


HostRef = Annotated[Text, RefTo(("host",))]
SessionRef = Annotated[Text, RefTo(("session",))]
LaunchRef = Annotated[Text, RefTo(("launch",))]
BenchmarkRef = Annotated[Text, RefTo(("benchmark",))]
SweepRef = Annotated[Text, RefTo(("sweep",))]
ModelRef = Annotated[Text, RefTo(("model",))]
FindingRef = Annotated[Text, RefTo(("finding",))]
CheckpointRef = Annotated[Text, RefTo(("checkpoint",))]
ModelOrPath = Annotated[Text, RefTo(("model",), or_text=True)]
AnyRefOrText = Annotated[Text, RefTo((), or_text=True)]
StepOrLaunchRef = Annotated[Text, RefTo((), or_text=False)]


class Shape(BaseModel):
    """Base of all shapes: an unknown field is refused."""

    # The validators of most are never wanted; routes complete those that they take.
    model_config = ConfigDict(extra="forbid", from_attributes=True, defer_build=True)


class FactIn(Shape):
    """What any told fact may say of itself."""

    at: Instant | None = Field(None, description="When it happened or was told; now if absent.")
    provenance: Name | None = Field(None, description="Where it comes from; who told it if absent.")
    observed_at: Instant | None = Field(None, description="When it was seen to hold; `at` if absent.")


class FactOut(Shape):
    """What every fact says of itself."""

    id: str
    session: str | None = None
    at: datetime
    provenance: str
    observed_at: datetime
    imported_from: str | None = None


class Measure(Shape):
    """A value with its unit and the direction in which it is better."""

    value: Number
    unit: Text | None = None
    better: Better | None = None


def example(body: dict[str, Any]) -> ConfigDict:
    """The configuration of a shape whose documentation shows `body`."""
    return ConfigDict(json_schema_extra={"examples": [body]})


def _measure(value: Any) -> Any:
    return {"value": value} if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else value


Metrics = dict[Name, Annotated[Measure, BeforeValidator(_measure)]]


ShapeT = TypeVar("ShapeT", bound=BaseModel)


def partial(shape: type[ShapeT], name: str, without: tuple[str, ...] = ()) -> type[ShapeT]:
    """The same fields, none of them required: what PATCH takes."""
    fields: dict[str, Any] = {
        field: (info.rebuild_annotation() | None, Field(None, description=info.description))
        for field, info in shape.model_fields.items()
        if field not in without
    }
    return cast("type[ShapeT]", create_model(name, __base__=Shape, **fields))
