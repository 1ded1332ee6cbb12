"""`sitrep install`: each client's settings get our entries and nothing else changes; `uninstall` takes them out again."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from sitrepd.agents.install import entries
from sitrepd.agents.install.clients import CLIENTS, Scope, Target, planned
from sitrepd.agents.install.files import Written, apply
from sitrepd.agents.install.jsonc import Jsonc
from sitrepd.agents.install.where import script_path, shipped
from sitrepd.errors import Conflict

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "deploy" / "agents"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of the test's own, with spaces in its name."""
    found = tmp_path / "the home"
    found.mkdir()
    monkeypatch.setenv("HOME", str(found))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return found


@pytest.fixture
def project(tmp_path: Path) -> Path:
    found = tmp_path / "project"
    (found / ".git").mkdir(parents=True)
    return found


def do(client: str, scope: Scope, project: Path, install: bool = True) -> list[Written]:
    return apply(planned(Target(client, scope, project), install))


def tree(*folders: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


def commands(settings: Path) -> list[str]:
    hooks = Jsonc(settings.read_text()).data["hooks"]
    return [one["command"] for groups in hooks.values() for group in groups for one in group["hooks"]]


SETTINGS = {
    "claude-code": ("home/.claude/settings.json", "project/.claude/settings.json"),
    "codex": ("home/.codex/hooks.json", "project/.codex/hooks.json"),
    "gemini": ("home/.gemini/settings.json", "project/.gemini/settings.json"),
}


def settings_of(client: str, scope: Scope, home: Path, project: Path) -> Path:
    name = SETTINGS[client][scope == "project"]
    return (home if scope == "user" else project) / name.split("/", 1)[1]


_THEIRS = {
    ".claude/settings.json": '{\n    // mine\n    "hooks": {"Stop": []}, // nothing yet\n    "permissions": {"allow": ["x",],},\n}\n',
    ".claude.json": '{"numStartups": 3, "mcpServers": {}}',
    ".codex/hooks.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}',
    ".codex/config.toml": '# mine\nmodel = "x"\n[mcp_servers]\n[mcp_servers.other]\ncommand = "x" # keep\n',
    ".gemini/settings.json": '{\r\n\t"mcpServers": {}, // none\r\n\t"hooks": {}\r\n}\r\n',
    ".config/opencode/opencode.jsonc": '{\n  "mcp": {}, // none\n}\n',
}


def test_what_was_there_is_the_same_to_the_byte_after_all_clients_came_and_went(home: Path, project: Path) -> None:
    for name, text in _THEIRS.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(text.encode())
    before = tree(home)
    for client in CLIENTS:
        do(client, "user", project)
        assert {one.change.word for one in do(client, "user", project)} == {"unchanged"}
    for name, text in _THEIRS.items():
        for remark in ("// mine", "// nothing yet", "// none", "# keep"):
            assert (remark in text) == (remark in (home / name).read_text())
    for client in reversed(CLIENTS):
        do(client, "user", project, install=False)
    assert tree(home) == before


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("client", CLIENTS)
def test_it_is_done_once_and_undone_without_a_trace(client: str, scope: Scope, home: Path, project: Path) -> None:
    before = tree(home, project)
    first = do(client, scope, project)
    assert {one.change.word for one in first} == {"created"}
    after = tree(home, project)
    assert {one.change.word for one in do(client, scope, project)} == {"unchanged"}
    assert tree(home, project) == after
    assert {one.change.word for one in do(client, scope, project, install=False)} == {"removed"}
    assert tree(home, project) == before


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("client", sorted(SETTINGS))
def test_what_others_wrote_stays_as_it_is(client: str, scope: Scope, home: Path, project: Path) -> None:
    settings = settings_of(client, scope, home, project)
    settings.parent.mkdir()
    theirs = (
        '{\n    // mine\n    "model": "opus",\n    "hooks": {\n        "Stop": [\n            {"hooks": [{"type": "command", '
        '"command": "beep"}]} /* loud */\n        ]\n    }\n}\n'
    )
    settings.write_text(theirs)
    settings.chmod(0o600)
    (changed,) = [one for one in do(client, scope, project) if one.change.path == settings]
    assert changed.change.word == "changed"
    assert changed.backup is not None
    assert changed.backup.read_text() == theirs
    assert settings.stat().st_mode & 0o777 == 0o600
    assert changed.backup.stat().st_mode & 0o777 == 0o600
    text = settings.read_text()
    assert all(line in text for line in ("    // mine\n", '    "model": "opus",\n', " /* loud */\n"))
    assert commands(settings)[0] == "beep"
    assert sum(map(entries.is_ours, commands(settings))) == len(commands(settings)) - 1
    do(client, scope, project, install=False)
    assert settings.read_text() == theirs
    assert not changed.backup.exists()


def test_an_older_entry_of_ours_is_brought_up_to_date_where_it_stands(home: Path, project: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    old = {"type": "command", "command": "/old/place/sitrep-hook claude-code Stop", "timeout": 1}
    beep = {"type": "command", "command": "beep"}
    told = {
        "hooks": {"Stop": [{"hooks": [old]}, {"hooks": [beep]}], "Gone": [{"hooks": [beep, old]}, {"hooks": [old]}]}
    }
    settings.write_text(json.dumps(told, indent=2))
    do("claude-code", "user", project)
    found = json.loads(settings.read_text())["hooks"]
    assert entries.is_ours(found["Stop"][0]["hooks"][0]["command"])
    assert "/old/place" not in settings.read_text()
    assert found["Stop"][1] == {"hooks": [beep]}
    assert found["Gone"] == [{"hooks": [beep]}]


@pytest.mark.parametrize("client", sorted(SETTINGS))
def test_a_hook_of_others_in_a_group_of_ours_is_kept_and_ours_are_called_once(
    client: str, home: Path, project: Path
) -> None:
    settings = settings_of(client, "user", home, project)
    do(client, "user", project)
    ours = commands(settings)
    told = json.loads(settings.read_text())
    for groups in told["hooks"].values():
        groups[0]["hooks"].append({"type": "command", "command": "beep"})
    settings.write_text(json.dumps(told, indent=2))
    for _ in "12":
        do(client, "user", project)
        assert sorted(one for one in commands(settings) if one != "beep") == sorted(ours)
        assert commands(settings).count("beep") == len(told["hooks"])
    do(client, "user", project, install=False)
    assert set(commands(settings)) == {"beep"}


def test_every_hook_calls_the_script_by_a_word_that_a_shell_finds(home: Path, project: Path) -> None:
    for client in SETTINGS:
        do(client, "user", project)
        for command in commands(settings_of(client, "user", home, project)):
            assert command.startswith('"$HOME/.local/share/sitrep/sitrep-hook" ')
            assert command.endswith((" || true", " Waiting"))
    assert os.access(script_path(), os.X_OK)
    assert script_path() == home / ".local" / "share" / "sitrep" / "sitrep-hook"


def test_the_script_stays_as_long_as_a_client_calls_it(project: Path) -> None:
    do("claude-code", "user", project)
    do("codex", "project", project)
    do("claude-code", "user", project, install=False)
    assert script_path().exists()
    do("codex", "project", project, install=False)
    assert not script_path().exists()


def test_codex_gets_commands_alone(home: Path, project: Path) -> None:
    do("codex", "user", project)
    told = json.loads((home / ".codex" / "hooks.json").read_text())
    assert list(told) == ["hooks"]
    kinds = {one["type"] for groups in told["hooks"].values() for group in groups for one in group["hooks"]}
    assert kinds == {"command"}


@pytest.mark.parametrize(
    "theirs",
    [
        '# mine\nmodel = "x"  # why\n',
        'model = "x"',
        '[mcp_servers.other]\ncommand = \'o\'\n\n[projects."/p"]\ntrust_level = "trusted"\n',
        'mcp_servers = { other = { command = "o" } }\n',
        '[mcp_servers]\nother = { command = "o" } # why\n',
    ],
)
def test_codexs_toml_keeps_its_words(theirs: str, home: Path, project: Path) -> None:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(theirs)
    do("codex", "user", project)
    added = config.read_text()
    before, after = tomllib.loads(theirs), tomllib.loads(added)
    servers: dict[str, Any] = after["mcp_servers"]
    assert servers.pop("sitrep")["args"] == ["mcp"]
    assert {**after, "mcp_servers": servers} == {**before, "mcp_servers": before.get("mcp_servers", {})}
    assert all(comment in added for comment in ("# mine", "# why") if comment in theirs)
    do("codex", "user", project)
    assert config.read_text() == added
    do("codex", "user", project, install=False)
    assert tomlkit.parse(config.read_text()).unwrap() == before
    if "{" not in theirs:
        assert config.read_text().rstrip() == theirs.rstrip()


def test_opencodes_comments_stay(home: Path, project: Path) -> None:
    config = home / ".config" / "opencode" / "opencode.jsonc"
    config.parent.mkdir(parents=True)
    theirs = '{\n  // keep\n  "theme": "x",\n  "mcp": {"other": {"type": "local", "command": ["o"]}},\n}\n'
    config.write_text(theirs)
    do("opencode", "user", project)
    assert not config.with_suffix(".json").exists()
    assert list(Jsonc(config.read_text()).data["mcp"]) == ["other", "sitrep"]
    assert "// keep" in config.read_text()
    do("opencode", "user", project, install=False)
    assert config.read_text() == theirs


def test_a_link_to_the_settings_stays_a_link(home: Path, project: Path) -> None:
    dotfiles = home / "dotfiles.json"
    dotfiles.write_text('{"a": 1}\n')
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").symlink_to(dotfiles)
    do("claude-code", "user", project)
    assert (home / ".claude" / "settings.json").is_symlink()
    assert "sitrep-hook" in dotfiles.read_text()


@pytest.mark.parametrize("broken", ['{"a": ', "[]", '{"hooks": 1}', '{"hooks": {"Stop": {}}}', "\xff"])
def test_settings_that_are_none_are_left_alone(broken: str, home: Path, project: Path) -> None:
    settings = home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_bytes(broken.encode("latin-1"))
    with pytest.raises(Conflict, match=r"settings\.json is not as it should be, and was not changed"):
        do("claude-code", "user", project)
    assert settings.read_bytes() == broken.encode("latin-1")
    assert not script_path().exists()


def test_a_file_of_the_same_name_that_is_not_ours_is_left_alone(home: Path, project: Path) -> None:
    plugin = home / ".config" / "opencode" / "plugins" / "sitrep.js"
    plugin.parent.mkdir(parents=True)
    plugin.write_text("export const Other = 1\n")
    with pytest.raises(Conflict, match="move it away"):
        do("opencode", "user", project)
    do_not = do("opencode", "user", project, install=False)
    assert plugin.read_text() == "export const Other = 1\n"
    assert {one.change.word for one in do_not} == {"unchanged"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_undoes_the_rest(home: Path, project: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude").chmod(0o500)
    with pytest.raises(Conflict, match="Nothing was changed"):
        do("claude-code", "user", project)
    assert tree(home) == {}


def test_a_place_that_cannot_be_written_undoes_the_rest(home: Path, project: Path) -> None:
    (home / ".claude").mkdir()
    (home / ".claude" / "commands").write_text("a file where a folder is wanted")
    before = tree(home)
    with pytest.raises(Conflict):
        do("claude-code", "user", project)
    assert tree(home) == before


def test_the_shipped_copies_of_the_script_are_the_same() -> None:
    script = shipped("sitrep-hook")
    copies = [path for path in AGENTS.rglob("sitrep-hook") if path.parent != AGENTS]
    assert len(copies) == 2
    for path in copies:
        assert path.read_bytes() == script
        assert os.access(path, os.X_OK)


def test_the_packages_name_the_events_that_are_answered() -> None:
    from sitrepd.agents.clients import CLIENTS as HANDLED
    from sitrepd.agents.payload import slug

    for client, file in (
        ("claude-code", "claude-code/hooks/hooks.json"),
        ("codex", "codex/hooks.json"),
        ("gemini", "gemini/hooks/hooks.json"),
    ):
        hooks = json.loads((AGENTS / file).read_text())["hooks"]
        calls = re.findall(rf" {client} (\w+)", json.dumps(hooks))
        assert {slug(event) for event in calls} == set(HANDLED[client])
        for event, groups in hooks.items():
            assert f" {client} {event} " in groups[0]["hooks"][0]["command"]
            assert groups[0]["hooks"][0]["timeout"] > 0
