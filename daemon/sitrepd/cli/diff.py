"""`sitrep diff`: what differs between two launches."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()
_PARTS = (
    ("command", "Started"), ("flags", "Flags, as asked"), ("environment", "Environment"), ("stack", "Stack"),
    ("settings", "Effective settings"), ("sizes", "Sizes"), ("phases", "Phases, in seconds"), ("outcome", "Outcome"),
)  # fmt: skip
_LONG = 160


@verb(app, "diff")
def diff(
    cli: Cli,
    a: Annotated[str, typer.Argument(metavar="L", help="A launch.")],
    b: Annotated[str, typer.Argument(metavar="L", help="The launch to compare it with.")],
) -> None:
    """What differs between two launches: flags, environment, software, effective settings, sizes, durations."""
    cli.show(cli.client.get(f"/launches/{a}/diff/{b}"), _say)


def _say(told: dict[str, Any]) -> None:
    some = False
    for part, title in _PARTS:
        if told[part]:
            some = True
            print(f"{title}:")
            output.table([_row(part, one) for one in told[part]], (("", "name"), (told["a"], "a"), (told["b"], "b")))
            print()
    if not some:
        output.say(f"Nothing that is known of {told['a']} and {told['b']} differs.")
    for one in told["unknown"]:
        output.warn(f"Note: {one}")


def _row(part: str, one: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"  {one['name']}",
        "a": _value(part, one["name"], one["a"]),
        "b": _value(part, one["name"], one["b"]),
    }


def _value(part: str, name: str, value: Any) -> str:
    if value is None:
        return "-"
    if part == "sizes" and name.endswith("_bytes"):
        return output.size(value)
    text = output.setting(value)
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"
