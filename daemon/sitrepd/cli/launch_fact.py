"""A launch for people: of its hundreds of settings those that were asked for, and what the engine made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli

_LONG = 160
_KINDS = {"changed": "changed by the engine", "chosen": "chosen by the engine", "unknown": "not told by the engine"}


def say_launch(cli: Cli, told: Mapping[str, Any], *, whole: bool = False, changed: bool = False) -> None:
    """Everything that is known; all settings where it is `whole`, only what the engine made of them where `changed`."""
    found = [] if whole else cli.client.get(f"/launches/{told['id']}/settings").data["data"]
    if changed:
        _say_settings([one for one in found if one["kind"] in ("changed", "chosen")], told)
        return
    output.fact(told if whole else {name: value for name, value in told.items() if name != "settings"})
    if not whole and found:
        print("settings:")
        _say_settings(found, told)


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
