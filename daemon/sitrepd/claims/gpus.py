"""Which GPUs a command will use, as NVML numbers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sitrepd.launches.engines._flags import whole
from sitrepd.launches.engines.base import CommandFacts


@dataclass(frozen=True, slots=True)
class Wanted:
    """`visible` are the GPUs that the process may see, `used` those that it takes; `count` is how many it needs."""

    visible: tuple[int, ...]
    used: tuple[int, ...]
    count: int
    said: str | None = None


def wanted_gpus(facts: CommandFacts, env: Mapping[str, str], uuids: Sequence[str | None]) -> Wanted:
    """`uuids` are those of the host's GPUs in NVML's order; a host without any gives an empty answer."""
    said = env.get("CUDA_VISIBLE_DEVICES")
    visible = visible_gpus(said, uuids)
    count = needed(facts)
    if count == 0:
        return Wanted(visible, (), 0, said)
    base, step = whole(facts.flags, "base_gpu_id") or 0, whole(facts.flags, "gpu_id_step") or 1
    places = [base + step * rank for rank in range(count)]
    return Wanted(visible, tuple(visible[place] for place in places if place < len(visible)), count, said)


def needed(facts: CommandFacts) -> int:
    """GPUs on this node: tp x pp, times dp where each replica has its own; 0 where it runs without GPUs."""
    device = facts.flags.get("device")
    if facts.engine == "generic" or (isinstance(device, str) and device != "cuda"):
        return 0
    shared = "enable_dp_attention" in facts.flags or "attn_dp_size" in facts.flags
    total = facts.tp_size * facts.pp_size * (1 if shared else facts.dp_size)
    return max(1, total // max(1, facts.nodes))


def visible_gpus(said: str | None, uuids: Sequence[str | None]) -> tuple[int, ...]:
    """As CUDA reads CUDA_VISIBLE_DEVICES: numbers or UUIDs (also their beginnings), up to the first invalid one."""
    everything = tuple(range(len(uuids)))
    if said is None:
        return everything
    found: list[int] = []
    for word in (part.strip() for part in said.split(",")):
        number = _place(word, uuids)
        if number is None or number in found:
            break
        found.append(number)
    return tuple(found)


def _place(word: str, uuids: Sequence[str | None]) -> int | None:
    if word.isdigit():
        return int(word) if int(word) < len(uuids) else None
    matching = [place for place, uuid in enumerate(uuids) if word and uuid and uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else None
