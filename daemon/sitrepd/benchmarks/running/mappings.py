"""Which fields of somebody's own JSON or CSV are what a benchmark has."""

from __future__ import annotations

import re

from pydantic import Field, field_validator

from sitrepd.shapes import Name, Shape, Text, example

_SOURCE = re.compile(
    r"(?P<path>[^*]+?)(?:\s*\*\s*(?P<factor>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?))?(?:\s*\[(?P<unit>[^\]]+)\])?"
)


class Mapping(Shape):
    """Names of ours, each with where it is found: a path such as `results.0.tps`, or the title of a column."""

    model_config = example(
        {"metrics": {"output_throughput": "stats.tps", "median_ttft_ms": "stats.ttft_s*1000"}, "name": "run.tag"}
    )

    metrics: dict[Name, Text] = Field(
        min_length=1, description="`PATH`, `PATH*FACTOR` where the unit is another, `PATH[UNIT]` to name the unit."
    )
    config: dict[Name, Text] = Field(default_factory=dict, description="Settings of the server that are compared.")
    workload: dict[Name, Text] = Field(default_factory=dict, description="What was asked of the server.")
    label: Text | None = Field(None, description="Where the name of the run is.")
    rows: Text | None = Field(None, description="The list that has one run an item; the whole is one run if absent.")

    @field_validator("metrics")
    @classmethod
    def _readable(cls, value: dict[str, str]) -> dict[str, str]:
        for name, told in value.items():
            if _SOURCE.fullmatch(told.strip()) is None:
                raise ValueError(f"{name}: {told!r} is no path, and none with *FACTOR or [UNIT] behind it")
        return value


def source(told: str) -> tuple[str, str | None, str | None]:
    """(path, factor, unit) of a metric's source."""
    found = _SOURCE.fullmatch(told.strip())
    assert found is not None
    return found["path"].strip(), found["factor"], found["unit"]
