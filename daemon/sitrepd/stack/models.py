"""Stacks: which software versions a launch ran on."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from sitrepd.shapes import FactIn, FactOut, Flag, HostRef, LaunchRef, Shape, Text, example, partial
from sitrepd.storage.base import FactRow, json_field, link


class Stack(FactRow, table=True):
    host_id: int | None = link("host")
    launch_id: int | None = link("launch")
    packages: dict[str, str] = json_field()
    driver: str | None = None
    cuda: str | None = None
    python: str | None = None
    os: str | None = None
    git: list[dict[str, Any]] = json_field()
    diffs: list[dict[str, Any]] = json_field()
    note: str | None = None


class GitState(Shape):
    path: Text
    commit: Text | None = None
    dirty: Flag | None = None


class TreeDiff(Shape):
    """What a working tree has that its commit has not."""

    path: Text
    commit: Text | None = None
    summary: Text | None = Field(None, description="As `git diff --stat`.")
    sha256: Text | None = Field(None, description="Of the whole difference, before secrets were taken out of it.")
    text: Text | None = Field(None, description="Against the commit; secrets left out.")
    truncated: Flag = Field(False, description="Whether `text` is only its beginning.")
    untracked: list[Text] = Field(default_factory=list, description="Files that git does not know yet, the first few.")


class StackFields(Shape):
    host: HostRef | None = None
    launch: LaunchRef | None = Field(None, description="The launch that ran on it.")
    packages: dict[str, Text] = Field(default_factory=dict, description="Versions by distribution name.")
    driver: Text | None = None
    cuda: Text | None = None
    python: Text | None = None
    os: Text | None = None
    git: list[GitState] = Field(default_factory=list, description="Working trees that take part.")
    diffs: list[TreeDiff] = Field(default_factory=list, description="What those trees have beyond their commits.")


class StackCreate(StackFields, FactIn):
    model_config = example({"packages": {"sglang": "0.5.16", "torch": "2.11.0"}, "python": "3.12.3"})


class StackPublic(StackFields, FactOut):
    note: str | None = Field(None, description="Why something is not known.")


StackUpdate = partial(StackFields, "StackUpdate")
