"""`sitrep settings`: every setting, its value and where that comes from."""

from __future__ import annotations

import os
import tomllib
from typing import Any

import typer

from sitrepd.cli import output
from sitrepd.cli.verbs import Cli, verb

app = typer.Typer()


@verb(app, "settings")
def settings(cli: Cli) -> None:
    """List the settings as a daemon started here would have them, and where each value comes from."""
    from sitrepd.places import config_file
    from sitrepd.settings import load_settings

    found = load_settings(data_dir=cli.data_dir)
    in_file = _in_file()
    rows = []
    for name, field in type(found).model_fields.items():
        source = _source(name, in_file, told=name == "data_dir" and cli.data_dir is not None)
        value = found.model_dump(mode="json")[name]
        rows.append(
            {
                "name": name,
                "value": value,
                "source": source,
                "env": f"SITREP_{name.upper()}",
                "description": field.description,
            }
        )
    if cli.json:
        output.as_json(rows)
        return
    shown = [row | {"value": "" if row["value"] is None else str(row["value"])} for row in rows]
    output.table(shown, (("SETTING", "name"), ("VALUE", "value"), ("FROM", "source"), ("ENVIRONMENT", "env")))
    output.warn(f"Settings file: {config_file()}{'' if config_file().exists() else ' (absent)'}")
    for name in sorted(set(in_file) - set(type(found).model_fields)):
        output.warn(f"{name} in that file is no setting.")


def _in_file() -> dict[str, Any]:
    from sitrepd.places import config_file

    path = config_file()
    return tomllib.loads(path.read_text()) if path.exists() else {}


def _source(name: str, in_file: dict[str, Any], told: bool) -> str:
    if told:
        return "command line"
    if os.environ.get(f"SITREP_{name.upper()}"):
        return "environment"
    return "file" if name in in_file else "default"
