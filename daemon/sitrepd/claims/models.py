"""Claims: who uses which GPUs and ports of a host, and until when."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, model_validator
from sqlmodel import Field as Column

from sitrepd.clock import utc_now
from sitrepd.shapes import Count, FactIn, FactOut, HostRef, Instant, LaunchRef, Name, Shape, Text, Whole, example
from sitrepd.storage.base import FactRow, json_field, link, time_field

Resource = Literal["gpu", "port"]
_MOST_NUMBERS = 256


class Claim(FactRow, table=True):
    """`process` is the identity of the process that it ends with; a launch's claim ends with the launch."""

    resource: str
    numbers: list[int] = json_field()
    host_id: int | None = link("host")
    launch_id: int | None = link("launch")
    owner: str | None = None
    why: str | None = None
    until: datetime | None = time_field()
    ended_at: datetime | None = Column(default=None, sa_type=time_field().sa_type, index=True)
    pid: int | None = None
    process: dict[str, Any] | None = json_field(nullable=True)

    @property
    def active(self) -> bool:
        """Whether it holds now."""
        return self.ended_at is None and (self.until is None or self.until > utc_now())


class ClaimFields(Shape):
    resource: Resource
    numbers: list[Count] = Field(
        min_length=1, max_length=_MOST_NUMBERS, description="GPU numbers as NVML counts them, or ports."
    )
    host: HostRef | None = Field(None, description="This host if absent.")
    launch: LaunchRef | None = Field(None, description="The launch that uses them.")
    owner: Name | None = Field(None, description="Who uses them; who tells it if absent.")
    why: Text | None = None
    until: Instant | None = Field(None, description="When it ends by itself.")
    pid: Whole | None = Field(None, ge=1, description="A process of this host that it ends with.")


class ClaimCreate(ClaimFields, FactIn):
    """A claim without `until` and `pid` lasts two hours."""

    model_config = example(
        {
            "resource": "gpu",
            "numbers": [0, 1, 2, 3],
            "owner": "anna",
            "why": "profiling",
            "until": "2099-01-01T00:00:00Z",
        }
    )

    @model_validator(mode="after")
    def _ports_are_ports(self) -> ClaimCreate:
        if self.resource == "port" and any(not 1 <= number <= 65535 for number in self.numbers):
            raise ValueError("ports are numbers from 1 to 65535")
        return self


class ClaimUpdate(Shape):
    why: Text | None = None
    owner: Name | None = None
    until: Instant | None = Field(None, description="Longer or shorter than it was.")


class ClaimPublic(ClaimFields, FactOut):
    ended_at: datetime | None = None
    active: bool = Field(False, description="Whether it holds now.")
    conflicts: list[str] = Field(default_factory=list, description="What others have claimed of the same, in words.")
