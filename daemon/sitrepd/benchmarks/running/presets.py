"""Named workloads: three that come along, and those of the user's settings file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from sitrepd.errors import InvalidFact
from sitrepd.places import config_file
from sitrepd.shapes import Shape, Text, Whole


class Preset(Shape):
    """What is asked of the server, in words that each tool has a flag for; `flags` go to the tool as they are."""

    prompts: Whole | None = Field(None, ge=1, description="Requests.")
    input_len: Whole | None = Field(None, ge=1, description="Tokens of a prompt.")
    output_len: Whole | None = Field(None, ge=1, description="Tokens of an answer.")
    concurrency: Whole | None = Field(None, ge=1, description="Requests at a time.")
    request_rate: float | None = Field(None, gt=0, description="Requests a second.")
    flags: list[Text] = Field(default_factory=list)
    about: Text = ""


SHIPPED: dict[str, Preset] = {
    "quick": Preset(
        prompts=16, input_len=256, output_len=128, concurrency=4, about="whether it works, and about how fast"
    ),
    "latency": Preset(prompts=16, input_len=1024, output_len=256, concurrency=1, about="one user alone"),
    "throughput": Preset(prompts=256, input_len=1024, output_len=256, concurrency=64, about="many users at once"),
}


def preset(name: str | None) -> Preset:
    """Of that name, the user's own first; without a name one that asks for nothing."""
    if name is None:
        return Preset()
    own = own_presets()
    found = own.get(name) or SHIPPED.get(name)
    if found is None:
        known = ", ".join(sorted({*own, *SHIPPED}))
        raise InvalidFact(
            f"There is no preset {name!r}; there are {known}. More of them go into {config_file()} as [presets.NAME]."
        )
    return found


def own_presets() -> dict[str, Preset]:
    """Those of the settings file, as it is now."""
    try:
        told = tomllib.loads(config_file().read_text()).get("presets", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidFact(f"The settings file {config_file()} cannot be read: {error}.") from error
    if not isinstance(told, dict):
        raise InvalidFact(f"presets in {config_file()} is no table: write [presets.NAME].")
    return {name: _read(name, one) for name, one in told.items()}


def _read(name: str, told: Any) -> Preset:
    try:
        return Preset.model_validate(told)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        may = ", ".join(Preset.model_fields)
        raise InvalidFact(
            f"[presets.{name}] in {config_file()}: {where}: {first['msg']}. It may have {may}."
        ) from error


def described() -> list[dict[str, Any]]:
    """All of them, for people to choose from."""
    own = own_presets()
    every: Mapping[str, Preset] = {**SHIPPED, **own}
    return [{"name": name, "own": name in own, **one.model_dump(exclude_none=True)} for name, one in every.items()]
