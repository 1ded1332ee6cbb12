"""A launch for people: of its hundreds of settings those that were asked for, and what the engine made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sitrepd.cli import output
from sitrepd.cli.gpus_meaning import say_gpus
from sitrepd.cli.verbs import Cli

_LONG = 160
_KINDS = {"changed": "changed by the engine", "chosen": "chosen by the engine", "unknown": "not told by the engine"}


def say_launch(cli: Cli, told: Mapping[str, Any], *, whole: bool = False, changed: bool = False) -> None:
    """Everything that is known; all settings where it is `whole`, only what the engine made of them where `changed`."""
    found = [] if whole else cli.client.get(f"/launches/{told['id']}/settings").data["data"]
    if changed:
        _say_settings([one for one in found if one["kind"] in ("changed", "chosen")], told)
        return
    if whole:
        output.fact(told)
        return
    output.fact({name: value for name, value in told.items() if name not in ("settings", "phases", "sizes")})
    _say_phases(told.get("phases") or ())
    _say_sizes(told.get("sizes") or ())
    _say_figures(cli, told)
    say_gpus(cli, told)
    if found and told.get("settings"):
        print("settings:")
        _say_settings(found, told)


def _say_figures(cli: Cli, told: Mapping[str, Any]) -> None:
    """figures of 300 s: 94.0 tok/s, at most 120.5; accept length 2.81"""
    summary = cli.client.get(f"/launches/{told['id']}/samples", points=1).data.get("summary")
    if not summary or summary.get("gen_tok_s") is None:
        return
    said = f"{summary['gen_tok_s']:.1f} tok/s, at most {summary['peak_gen_tok_s']:.1f}"
    if summary.get("accept_len") is not None:
        said += f"; accept length {summary['accept_len']:.2f}"
    output.say(f"figures of {output.duration(float(summary['seconds']))}: {said}")


def _say_phases(phases: Iterable[Mapping[str, Any]]) -> None:
    """load_weights: 12.4 s, 64 of 64 shards"""
    lines = [f"  {one['name']}: {_phase(one)}" for one in phases]
    for line in ["phases:", *lines] if lines else ():
        output.say(line)


def _phase(one: Mapping[str, Any]) -> str:
    took = one.get("elapsed_s")
    if took is None and one.get("started_at") and one.get("ended_at"):
        began, ended = (datetime.fromisoformat(one[name]) for name in ("started_at", "ended_at"))
        took = (ended - began).total_seconds()
    counted = f"{one['done']} of {one['total']} {one.get('unit') or ''}".strip() if one.get("total") else ""
    said = output.duration(float(took)) if took is not None else "going on" if one.get("started_at") else ""
    return ", ".join(part for part in (said, counted) if part) or "no times recorded"


def _say_sizes(sizes: Iterable[Mapping[str, Any]]) -> None:
    """Of all ranks together, where they differ from the least to the most: weight_bytes of target: 66.9 GiB, 8 ranks"""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in sizes:
        role = f" of {one['role']}" if one.get("role") else ""
        groups.setdefault(f"{one['name']}{role}", []).append(one)
    for line in ["sizes:", *(f"  {name}: {_size(found)}" for name, found in groups.items())] if groups else ():
        output.say(line)


def _size(found: Sequence[Mapping[str, Any]]) -> str:
    unit = found[0].get("unit")
    values = sorted({int(one["value"]) for one in found})
    ends = [values[0]] if len(values) == 1 else [values[0], values[-1]]
    said = " to ".join(dict.fromkeys(output.size(value) if unit == "bytes" else f"{value} {unit}" for value in ends))
    return f"{said}, {len(found)} ranks" if len(found) > 1 else said


def _say_settings(found: list[dict[str, Any]], told: Mapping[str, Any]) -> None:
    for one in found:
        value = one.get("effective") if one["kind"] != "unknown" else one.get("asked")
        said = f"  {one['name']}: {_short(value)}"
        if one["kind"] == "changed":
            said += f"  (asked: {_short(one.get('asked'))}; {_KINDS['changed']})"
        elif one["kind"] in _KINDS and told.get("settings"):
            said += f"  ({_KINDS[one['kind']]})"
        output.say(said)
    if not found:
        output.say(f"Nothing is known that the engine changed of what was asked of {told['id']}.")
    elif told.get("settings"):
        output.say(f"  … of {len(told['settings'])} settings; --all shows them.")


def _short(value: Any) -> str:
    text = output.setting(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
