"""What is looked at before anything runs: the launch, the tool, its options, the workload."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlmodel import Session, col, select

from sitrepd.benchmarks.models import BenchmarkMapping
from sitrepd.benchmarks.running import helps, tools
from sitrepd.benchmarks.running.asked import BenchAsked
from sitrepd.benchmarks.running.presets import Preset, preset
from sitrepd.benchmarks.running.target import Target, find_target, launch_row, must_be_ready, must_differ
from sitrepd.errors import Conflict, InvalidFact
from sitrepd.launches.models import ALIVE, Launch
from sitrepd.runtime import Runtime
from sitrepd.stack.models import Stack


@dataclass(frozen=True)
class Prepared:
    """A server that is ready, and what is to be run against it."""

    launch: Launch
    target: Target
    preset: Preset
    help: str | None


async def checked(runtime: Runtime, asked: BenchAsked) -> Launch:
    """The launch; raises a SitrepError that says what would be right where it cannot be measured so."""
    launch = read_launch(runtime, asked.launch)
    if asked.wait_s and launch.watched and launch.ended_at is None and launch.state in ALIVE:
        _static(runtime, asked)
        return launch
    must_be_ready(launch)
    await asyncio.to_thread(prepared, runtime, asked, launch)
    return launch


async def all_checked(runtime: Runtime, asked: Sequence[BenchAsked]) -> list[Launch]:
    """The launches, each a server of its own; raises as `checked` does."""
    if len(asked) == 1:
        return [await checked(runtime, asked[0])]
    try:
        launches = [await checked(runtime, one) for one in asked]
    except Conflict as error:
        raise Conflict(f"{error.detail} To be measured in turns, all servers must be up at once.") from error
    await asyncio.to_thread(must_differ, launches)
    return launches


def read_launch(runtime: Runtime, asked: str) -> Launch:
    with runtime.store.read() as db:
        return launch_row(db, asked)


def prepared(runtime: Runtime, asked: BenchAsked, launch: Launch) -> Prepared:
    """Blocks: the first time that a version is measured with, it is asked for its options."""
    found = _static(runtime, asked)
    target = replace(find_target(launch), program=asked.program, path=asked.path)
    if asked.tool == "command":
        _check_program(asked, target)
        return Prepared(launch, target, found, None)
    tools.program(asked.tool, target)
    text = helps.help_of(asked.tool, target, _version(runtime, launch), benchmarks_dir(runtime) / "options")
    helps.check(asked.tool, [*found.flags, *asked.flags], text)
    return Prepared(launch, target, found, text)


def benchmarks_dir(runtime: Runtime) -> Path:
    """What runs of ours write, and the options of tools."""
    return runtime.settings.data_dir / "benchmarks"


def originals_dir(runtime: Runtime) -> Path:
    return runtime.settings.data_dir / "originals"


def _static(runtime: Runtime, asked: BenchAsked) -> Preset:
    """What can be said without the server."""
    found = preset(asked.preset)
    if asked.tool == "command":
        if not asked.flags:
            raise InvalidFact("A command needs its words: `sitrep bench run L14 --tool command -- PROGRAM …`.")
        if asked.program is not None:
            raise InvalidFact("program: a `command` is started by its own first word.")
    elif asked.mapping is not None:
        raise InvalidFact("A mapping is for the JSON of a `command`; the other tools' files are known.")
    elif not _says_workload(found, asked.flags):
        raise InvalidFact(
            "Nothing says what is to be asked of the server: take a --preset (quick, latency, throughput), or give the "
            "tool's own flags after `--`."
        )
    if asked.mapping is not None:
        read_mapping(runtime, asked.mapping)
    return found


def _says_workload(found: Preset, flags: Sequence[str]) -> bool:
    return bool(flags) or found.model_fields_set - {"about"} != set()


def read_mapping(runtime: Runtime, name: str) -> Mapping[str, Any]:
    """Of that name; raises InvalidFact."""
    with runtime.store.read() as db:
        return mapping_named(db, name)


def mapping_named(db: Session, name: str) -> Mapping[str, Any]:
    row = db.get(BenchmarkMapping, name)
    if row is None:
        known = ", ".join(db.exec(select(BenchmarkMapping.name).order_by(col(BenchmarkMapping.name))).all())
        raise InvalidFact(
            f"There is no mapping {name!r}{f'; there are {known}' if known else ''}. Make one with "
            f"`sitrep bench mapping add {name} output_throughput=PATH …`."
        )
    return row.fields


def _check_program(asked: BenchAsked, target: Target) -> None:
    word = asked.flags[0]
    env = target.around(asked.env or {})
    folder = Path(asked.cwd or target.cwd)
    if not folder.is_dir():
        raise InvalidFact(f"cwd: {folder} is no folder on this host.")
    place = shutil.which(folder / word) if os.sep in word else shutil.which(word, path=env.get("PATH", os.defpath))
    if place is None:
        raise InvalidFact(f"No such program: {word}.")


def _version(runtime: Runtime, launch: Launch) -> str | None:
    with runtime.store.read() as db:
        query = select(Stack).where(Stack.launch_id == launch.id).order_by(col(Stack.id).desc()).limit(1)
        row = db.exec(query).first()
    return (row.packages or {}).get("sglang") if row is not None else None
