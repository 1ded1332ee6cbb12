"""What stacks say in a checkpoint: each set of versions once, with the launches that ran on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sitrepd import reporting as r
from sitrepd.sections import Report, Section

_COLUMNS = ("id", "host_id", "launch_id", "packages", "driver", "cuda", "python", "os", "git", "note")
_LATEST = 50
_FIRST = (
    "sglang", "vllm", "torch", "sgl-kernel", "sglang-kernel", "flashinfer-python", "flash-attn", "triton",
    "transformers", "nvidia-nccl-cu12", "nvidia-nccl-cu13", "cuda-python", "xgrammar", "numpy",
)  # fmt: skip


def report(report: Report) -> list[Section]:
    """Section `stack`."""
    found = r.rows(report, "stack", _COLUMNS, limit=_LATEST)
    hosts = r.names_of(report, "host", (row.host_id for row in found))
    return sections(found, hosts, r.count(report, "stack") - len(found))


def sections(found: Sequence[Any], hosts: dict[int, dict[str, Any]], earlier: int = 0) -> list[Section]:
    """From rows, newest first."""
    groups: dict[str, list[Any]] = {}
    for row in found:
        told = [row.host_id, row.packages, row.driver, row.cuda, row.python, row.os, row.git, row.note]
        groups.setdefault(json.dumps(told, sort_keys=True), []).append(row)
    items = [_item(group, hosts) for group in groups.values()]
    data = r.present(earlier=earlier or None)
    return [
        Section(name="stack", title="Stack", order=130, priority=55, items=items, data=data, more="sitrep stack list")
    ]


def _item(group: Sequence[Any], hosts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    first = group[0]
    launches = [f"L{row.launch_id}" for row in reversed(group) if row.launch_id is not None]
    return {"ids": [f"K{row.id}" for row in reversed(group)]} | r.present(
        launches=launches,
        host=hosts.get(first.host_id),
        packages=_ordered(first.packages or {}),
        driver=first.driver,
        cuda=first.cuda,
        python=first.python,
        os=first.os,
        git=first.git,
        note=first.note,
    )


def _ordered(packages: dict[str, str]) -> dict[str, str]:
    """What serving depends on comes first."""
    names = [name for name in _FIRST if name in packages]
    return {name: packages[name] for name in (*names, *sorted(packages.keys() - set(names)))}
