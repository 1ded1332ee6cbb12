"""The shape of the command line: every verb is there, takes the common options, and needs no heavy import."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S

from sitrepd.cli import nouns, root, verbs
from sitrepd.slices import load_registry

_HEAVY = ("fastapi", "sqlmodel", "sqlalchemy", "alembic", "pydantic", "pydantic_settings", "rich", "httpx", "uvicorn")


def _commands() -> Iterator[tuple[str, Any]]:
    for name in root.VERBS:
        yield from _below(name, root.load(name))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield name, command
    else:
        for sub, one in subcommands.items():
            yield from _below(f"{name} {sub}", one)


def test_every_verb_takes_the_common_options() -> None:
    wanted = {"--json", "--session", "--data-dir", "--no-start"}
    for name, command in _commands():
        options = {option for param in command.params for option in param.opts}
        assert wanted <= options, name


def test_every_noun_can_be_told_whole() -> None:
    """No field of the API is out of reach of the command line's options."""
    tables = {
        table.word: table
        for name in root.VERBS
        for table in [getattr(sys.modules.get(f"sitrepd.cli.{root.VERBS[name]}"), "TABLE", None) or _table(name)]
        if table is not None
    }
    for noun in load_registry().nouns:
        if noun.word in ("launch", "session", "checkpoint"):
            continue
        fields = {field.name for field in (*tables[noun.word].fields, *nouns.COMMON_FIELDS)}
        assert set(noun.create.model_fields) <= fields, noun.word
        assert fields <= set(noun.create.model_fields), noun.word


def _table(name: str) -> Any:
    root.load(name)
    return getattr(sys.modules[f"sitrepd.cli.{root.VERBS[name]}"], "TABLE", None)


def _group(bare: str = "list", other: str | None = None) -> verbs.NounGroup:
    group = root.load("launch")
    group.bare, group.other = bare, other
    assert isinstance(group, verbs.NounGroup)
    return group


@pytest.mark.parametrize(
    ("told", "meant"),
    [
        ([], ["list"]),
        (["--json"], ["list", "--json"]),
        (["--json", "list"], ["list", "--json"]),
        (["--session", "S1", "show", "L1"], ["show", "--session", "S1", "L1"]),
        (["--session=S1", "list"], ["list", "--session=S1"]),
        (["--", "python"], ["start", "--", "python"]),
        (["--name", "list", "--", "python"], ["start", "--name", "list", "--", "python"]),
        (["-"], ["start", "-"]),
        (["--help"], ["--help"]),
    ],
)
def test_the_verb_may_be_left_out_or_come_after_the_common_options(told: list[str], meant: list[str]) -> None:
    assert _group(other="start").with_verb(told) == meant


def test_without_another_verb_options_are_of_the_list() -> None:
    group = _group()
    assert group.with_verb(["--limit", "3"]) == ["list", "--limit", "3"]
    assert group.with_verb(["shwo", "L1"]) == ["shwo", "L1"]


@pytest.mark.parametrize("words", [["version"], ["session", "list", "--json"], ["resume"], ["finding", "--json"]])
def test_a_call_pays_for_no_heavy_import(shared: Sitrep, words: list[str]) -> None:
    code = (
        "import sys\nfrom sitrepd.cli import main\n"
        f"sys.argv = ['sitrep', *{words!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        f"print('heavy:', *[name for name in {_HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=shared.environment(), capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "heavy:"


def test_usage_errors_are_status_2(shared: Sitrep) -> None:
    assert "Did you mean 'finding'" in shared("findin").refused(2)
    assert "No such option" in shared("session", "list", "--nope").refused(2)
    assert "'--limit'" in shared("session", "list", "--limit", "0").refused(2)
    assert "none of md, json, html, txt" in shared("checkpoint", "--format", "pdf").refused(2)


def test_help_needs_no_daemon_and_no_colour(sitrep: Sitrep) -> None:
    done = sitrep("--help").ok()
    assert "launch" in done.out
    assert "\x1b" not in done.out
    assert "Start a server" in sitrep("launch", "start", "-h").ok().out
    assert not sitrep.store.exists()
    assert sitrep("--version").ok().out == sitrep("version").ok().out
