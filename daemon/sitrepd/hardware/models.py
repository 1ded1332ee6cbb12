"""Hosts: machines with their GPUs, as told or as observed."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from pydantic import Field
from sqlalchemy import BigInteger
from sqlmodel import Field as Column

from sitrepd.clock import utc_now
from sitrepd.hardware.gpus import THROTTLING, clock_reason_words
from sitrepd.shapes import Count, FactIn, FactOut, Name, Shape, Text, example, partial
from sitrepd.storage.base import FactRow, Row, big_field, json_field, now_field
from sitrepd.storage.types import EpochMs


class Host(FactRow, table=True):
    name: str
    machine: str | None = Column(default=None, unique=True)
    os: str | None = None
    cpu: str | None = None
    cpu_count: int | None = None
    memory_bytes: int | None = big_field()
    gpus: list[dict[str, Any]] = json_field()
    interconnect: str | None = None
    topology: Any = json_field(nullable=True)
    numa: Any = json_field(nullable=True)
    disks: Any = json_field(nullable=True)
    note: str | None = None


class HostSnapshot(Row, table=True):
    """What a host consisted of from `at` on; stored only when `digest` differs from the one before."""

    __tablename__ = "host_snapshot"

    id: int | None = Column(default=None, primary_key=True)
    host_id: int = Column(foreign_key="host.id", index=True)
    at: datetime = now_field()
    digest: str
    data: dict[str, Any] = json_field()


class GpuSample(Row, table=True):
    """One reading of one GPU, of the newest; what the GPU does not tell is null. Older ones are sealed into chunks."""

    __tablename__ = "gpu_sample"
    __table_args__: ClassVar[Any] = {"sqlite_with_rowid": False}

    host_id: int = Column(foreign_key="host.id", primary_key=True)
    gpu: int = Column(primary_key=True)
    at: datetime = Column(default_factory=utc_now, sa_type=EpochMs, primary_key=True)
    utilization: float | None = None
    memory_utilization: float | None = None
    memory_used_bytes: int | None = big_field()
    memory_reserved_bytes: int | None = big_field()
    power_w: float | None = None
    temperature_c: float | None = None
    memory_temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    clock_reasons: int | None = big_field()
    ecc_corrected: int | None = big_field()
    ecc_uncorrected: int | None = big_field()
    remapped_rows: int | None = None
    pcie_replays: int | None = big_field()

    @property
    def throttle(self) -> str | None:
        """What held the clocks down, in words."""
        return ", ".join(clock_reason_words((self.clock_reasons or 0) & THROTTLING)) or None


class GpuChunk(Row, table=True):
    """A piece of consecutive samples of one GPU (tier 0), or of its minutes or hours (tier 60, 3600); see blocks.py.

    `start` and `end` are milliseconds since 1970. The pieces of a chunk, `part` by part, are so small that pages of the
    database are filled.
    """

    __tablename__ = "gpu_chunk"
    __table_args__: ClassVar[Any] = {"sqlite_with_rowid": False}

    host_id: int = Column(foreign_key="host.id", primary_key=True)
    gpu: int = Column(primary_key=True)
    tier: int = Column(primary_key=True)
    start: int = Column(sa_type=BigInteger, primary_key=True)
    part: int = Column(default=0, primary_key=True)
    end: int = Column(sa_type=BigInteger)
    count: int
    payload: bytes


class Gpu(Shape):
    """A GPU; `pcie` says the link in words, such as "gen5 x16"."""

    index: Count
    name: Text
    memory_bytes: Count | None = None
    uuid: Text | None = None
    pcie: Text | None = None
    architecture: Text | None = None


class HostFields(Shape):
    name: Name
    os: Text | None = None
    cpu: Text | None = None
    cpu_count: Count | None = None
    memory_bytes: Count | None = None
    gpus: list[Gpu] = Field(default_factory=list)
    interconnect: Text | None = Field(None, description="How the GPUs are joined: PCIe, NVLink, …")
    topology: Any | None = Field(None, description="Matrix of the paths between GPUs, row by row.")
    numa: Any | None = None
    disks: Any | None = None
    note: Text | None = None


class HostCreate(HostFields, FactIn):
    model_config = example({"name": "box", "gpus": [{"index": 0, "name": "NVIDIA H200"}], "interconnect": "NVLink"})


class HostPublic(HostFields, FactOut):
    pass


HostUpdate = partial(HostFields, "HostUpdate")
