"""What is known of agents by listening: shell commands that they ran, and what a client's own summary kept."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from sitrepd.shapes import (
    CheckpointRef,
    Count,
    FactIn,
    FactOut,
    HostRef,
    Name,
    RefTo,
    Shape,
    Text,
    Whole,
    example,
    partial,
)
from sitrepd.storage.base import FactRow, big_field, json_field, link

CommandKind = Literal["server", "benchmark", "training", "profile", "install", "other"]
OUTPUT_MOST = 64 << 10


class Command(FactRow, table=True):
    command: str
    kind: str = "other"
    cwd: str | None = None
    host_id: int | None = link("host")
    exit_code: int | None = None
    duration_ms: int | None = big_field()
    output: str | None = None
    output_path: str | None = None
    results: list[str] = json_field()


class CommandFields(Shape):
    command: Text = Field(min_length=1, max_length=200_000, description="The shell command line; secrets replaced.")
    kind: CommandKind = Field("other", description="What it does, by its own words.")
    cwd: Text | None = Field(None, description="Where it ran.")
    host: HostRef | None = Field(None, description="The host that it ran on.")
    exit_code: Whole | None = Field(None, description="Its exit status; absent where it was not seen.")
    duration_ms: Count | None = None
    output: Text | None = Field(None, max_length=OUTPUT_MOST, description="The end of what it printed.")
    output_path: Text | None = Field(None, description="Where all of its output is.")
    results: list[Annotated[Text, RefTo((), or_text=True)]] = Field(
        default_factory=list, description="Ids of the facts that came of it."
    )


class CommandCreate(CommandFields, FactIn):
    model_config = example({"command": "python -m sglang.bench_serving --port 30000", "exit_code": 0})


class CommandPublic(CommandFields, FactOut):
    pass


CommandUpdate = partial(CommandFields, "CommandUpdate")


class Compaction(FactRow, table=True):
    client: str
    conversation: str | None = None
    trigger: str | None = None
    checkpoint_id: int | None = link("checkpoint")
    summary: str = ""
    lost: list[dict[str, Any]] = json_field()


class Lost(Shape):
    """A fact that a summary does not hold any more."""

    id: Text
    what: Text
    text: Text


class CompactionFields(Shape):
    client: Name = Field(description="The agent's client.")
    conversation: Name | None = Field(None, description="The client's own conversation id.")
    trigger: Name | None = Field(None, description="What caused it: manual or auto.")
    checkpoint: CheckpointRef | None = Field(None, description="The checkpoint that was made before it.")
    summary: Text = Field("", description="The client's own summary.")
    lost: list[Lost] = Field(
        default_factory=list, description="Facts of the checkpoint that the summary does not hold."
    )


class CompactionCreate(CompactionFields, FactIn):
    model_config = example({"client": "claude-code", "trigger": "auto", "summary": "The 2-step run is best."})


class CompactionPublic(CompactionFields, FactOut):
    pass


CompactionUpdate = partial(CompactionFields, "CompactionUpdate")
