"""The tools that tell: findings, benchmarks, next steps."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from sitrepd.agents.mcp.ask import Refused
from sitrepd.agents.mcp.tool import Tool, Use, listed, text, texts

KINDS = ("root_cause", "constraint", "decision", "rejected", "hypothesis", "observation")
STATUSES = ("open", "confirmed", "refuted", "superseded")
_OPEN = ("todo", "doing")
_FINDING = ("kind", "title", "reason", "detail", "status", "supersedes")
_BENCHMARK = ("name", "launch", "tool", "baseline", "comparable", "config", "workload", "note", "artifact")
_STEP = ("order", "needs")


async def _record_finding(use: Use) -> str:
    evidence = listed(use.told.get("evidence"))
    told = use.given(*_FINDING) | ({"evidence": evidence} if evidence else {})
    found = (await use.ask("POST", "/findings", told)).data
    why = f" because: {found['reason']}" if found.get("reason") else ""
    hint = "" if why or found["kind"] != "rejected" else " No reason was given; a later reader will ask for it."
    kind = found["kind"].replace("_", " ")
    return f"{found['id']} recorded in {found.get('session')}: {kind} ({found['status']}): {found['title']}{why}.{hint}"


async def _record_benchmark(use: Use) -> str:
    metrics = use.told.get("metrics")
    if not isinstance(metrics, Mapping) or not metrics:
        raise Refused('metrics: an object is wanted, such as {"output_throughput": "94.0 tok/s"}.')
    told = use.given(*_BENCHMARK) | {"metrics": {name: measure(name, value) for name, value in metrics.items()}}
    found = (await use.ask("POST", "/benchmarks", told)).data
    shown = ", ".join(f"{name} {_shown(value)}" for name, value in found["metrics"].items())
    name = f" ({found['name']})" if found.get("name") else ""
    launch = f" against {found['launch']}" if found.get("launch") else "; no launch was named"
    return f"{found['id']}{name} recorded in {found.get('session')}{launch}: {shown}."


def measure(name: str, told: Any) -> Any:
    """A number, an object as the API takes it, or text as `94.0 tok/s`, which keeps its decimals in every client."""
    if not isinstance(told, str):
        return told
    number, _, unit = told.strip().partition(" ")
    try:
        value = Decimal(number)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite():
        raise Refused(f"metrics: {name}: {told!r} is no number with a unit after a space, such as 94.0 tok/s.")
    return {"value": value, **({"unit": unit.strip()} if unit.strip() else {})}


def _shown(measured: Mapping[str, Any]) -> str:
    return f"{measured['value']} {measured.get('unit') or ''}".strip()


async def _next_steps(use: Use) -> str:
    """The list after the change, so that one call is enough."""
    lines = []
    if use.told.get("add"):
        after = listed(use.told.get("after"))
        told = {"text": use.told["add"], **use.given(*_STEP), **({"after": after} if after else {})}
        lines.append(f"{(await use.ask('POST', '/next-steps', told)).data['id']} added.")
    for state, name in (("done", "done"), ("dropped", "drop")):
        for fact_id in listed(use.told.get(name)):
            await use.ask("PATCH", f"/next-steps/{fact_id}", {"state": state})
            lines.append(f"{fact_id} {state}.")
    page = (await use.ask("GET", "/sessions/current/next-steps", query={"limit": 1000})).data
    open_ones = [one for one in page["data"] if one["state"] in _OPEN]
    open_ones.sort(key=lambda one: (one.get("order") is None, one.get("order") or 0, int(one["id"][1:])))
    lines += [_step(one) for one in open_ones] or ["No next step is open."]
    return "\n".join(lines)


def _step(one: Mapping[str, Any]) -> str:
    waits = f"after {', '.join(one['after'])}" if one.get("after") else ""
    needs = {"server": "needs a server", "nothing": "needs no server"}.get(str(one.get("needs")), "")
    about = ", ".join(part for part in ("doing" if one["state"] == "doing" else "", waits, needs) if part)
    return f"{one['id']}: {one['text']}{f' ({about})' if about else ''}"


RECORD_FINDING = Tool(
    "record_finding",
    "Record what was established",
    "Keep a finding so that it survives every loss of context. Always record a rejected option with the reason, and a "
    "root cause with its evidence.",
    {
        "kind": text("What kind of finding.", enum=list(KINDS)),
        "title": text("What was found, in a sentence."),
        "reason": text("Why. Of a rejected option: why it is not to be tried again."),
        "detail": text("More of it, with exact numbers and names."),
        "evidence": texts("Ids (B31, L14) or text."),
        "status": text("How sure it is; open if absent.", enum=list(STATUSES)),
        "supersedes": text("The finding (F…) that this one replaces."),
    },
    _record_finding,
    required=("kind", "title"),
)
RECORD_BENCHMARK = Tool(
    "record_benchmark",
    "Record a measured run",
    "Keep one measured run for the comparison. bench_serving and `sitrep run` are seen by themselves; record what is "
    "not.",
    {
        "metrics": {
            "type": "object",
            "description": 'Name to number or to text with its unit, which keeps decimals: {"output_throughput": '
            '"94.0 tok/s", "mean_ttft_ms": "1421.7 ms"}.',
        },
        "name": text("What it is called, such as EAGLE-3, 2 steps."),
        "launch": text("The server (L…) it ran against."),
        "config": {"type": "object", "description": "The settings that differ between the compared runs."},
        "workload": {"type": "object", "description": "What was asked of the server: concurrency, prompts, lengths."},
        "tool": text("What measured it."),
        "baseline": {"type": "boolean", "description": "Whether the others are compared with it."},
        "comparable": {"type": "boolean", "description": "False, with the why in note, keeps it out."},
        "note": text("What is to be known of it."),
        "artifact": text("Path of the raw result."),
    },
    _record_benchmark,
    required=("metrics",),
)
NEXT_STEPS = Tool(
    "next_steps",
    "What is still to do",
    "List what is still to do, in its order; with add, done or drop change it first.",
    {
        "add": text("A step to add."),
        "after": texts("Ids of what the added step waits for (L14, N3)."),
        "needs": text("What the added step needs.", enum=["server", "nothing"]),
        "order": {"type": "integer", "description": "Place of the added step; lower comes first."},
        "done": texts("Ids of steps that are done."),
        "drop": texts("Ids of steps that are given up."),
    },
    _next_steps,
)
