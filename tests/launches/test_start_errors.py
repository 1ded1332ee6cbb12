from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.launches.fakes import PYTHON, WAITS, Room

from sitrepd.launches import supervise
from sitrepd.launches.command import CommandError
from sitrepd.launches.launchers.base import LaunchError, LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.end()


@pytest.mark.parametrize(
    ("more", "kind", "message"),
    [
        ({"argv": ["nosuch"]}, "program_not_found", "No such program: nosuch; PATH searched: /usr/bin:/bin."),
        ({"argv": ["./nothing"]}, "program_not_found", "No such program: ./nothing (in {folder})."),
        ({"argv": ["./plain"]}, "permission", "./plain is not executable: chmod +x it"),
        ({"argv": ["./lost"]}, "program_not_found", "./lost needs /no/such/python, which does not exist."),
        ({"argv": ["./text"]}, "permission", "./text is not a program: it has no #! line"),
        ({"argv": ["."]}, "permission", "is a folder, not a program"),
        ({"argv": ["true"], "cwd": Path("/no/where")}, "folder_missing", "directory does not exist: /no/where."),
        ({"argv": ["true"], "cwd": Path("here")}, "folder_missing", "The working directory must be absolute: here."),
        ({"argv": ["true"], "log_path": Path("/no/where/l")}, "log_folder_missing", "does not exist: /no/where."),
        ({"argv": ["true"], "log_path": Path("/")}, "log_not_writable", "The log / cannot be written: Is a directory."),
        ({"argv": []}, "command", "argv is empty"),
        ({"argv": ["true", "a\0b"]}, "command", "NUL"),
        ({"argv": ["true"], "command": "true"}, "command", "Either a command line or argv"),
        ({"command": "source ./bad.sh; python3.99 x"}, "program_not_found", "python3.99: not found"),
        ({"argv": ["true"], "state_dir": Path("/proc/x")}, "state_folder", "/proc/x cannot be made"),
    ],
)  # fmt: skip
def test_a_start_that_fails_says_why(more, kind: str, message: str, room: Room) -> None:
    for name, text in {"plain": "x", "lost": "#!/no/such/python\n", "text": "\x00\x01", "bad.sh": ""}.items():
        (room.folder / name).write_text(text)
        (room.folder / name).chmod(0o644 if name == "plain" else 0o755)
    with pytest.raises(LaunchError) as error:
        room.launch(**more)
    assert error.value.kind == kind
    assert message.replace("{folder}", str(room.folder)) in error.value.detail.replace("command not found", "not found")


def test_a_program_that_is_missing_only_late_ends_the_launch_with_the_reason(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = (Path(supervise.__file__).read_text()).replace("_SETTLE_S = 2.0", "_SETTLE_S = 0.0")
    (room.folder / "supervise.py").write_text(slow)
    monkeypatch.setattr(supervise, "__file__", str(room.folder / "supervise.py"))
    launched = room.launch(command="while ! [ -e go ]; do sleep 0.01; done; . ./go; python3.99 x")
    assert room.launcher.poll(launched) is None
    (room.folder / "go").write_text("")
    ended = room.ended(launched)
    assert (ended.known, ended.exit_code) == (True, 127)
    assert ended.reason
    assert "python3.99: not found" in ended.reason


def test_a_lost_status_makes_the_exit_unknown(room: Room) -> None:
    launched = room.launch(["true"])
    room.ended(launched)
    (room.folder / "state0/status.json").write_text("")
    ended = room.ended(launched)
    assert not ended.known
    assert ended.reason
    assert "cannot be read" in ended.reason


def test_a_failed_start_is_told_to_the_next_daemon_too(room: Room) -> None:
    with pytest.raises(LaunchError):
        room.launch(["no-such-program"])
    with pytest.raises(LaunchError, match="No such program: no-such-program"):
        LocalLauncher().adopt(room.folder / "state0")


def test_a_command_that_cannot_be_read_starts_nothing(room: Room) -> None:
    with pytest.raises(CommandError):
        room.launch(command="python 'a")
    assert not list(room.folder.glob("state*"))


def test_a_state_folder_serves_one_launch(room: Room) -> None:
    launched = room.launch([*PYTHON, "-c", WAITS])
    with pytest.raises(LaunchError, match="already belongs to another launch"):
        room.launch(["true"], state_dir=launched.state_dir)
    assert room.launcher.adopt(room.folder / "state0").identity == launched.identity


def test_nothing_to_adopt_is_said(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="Nothing was started"):
        LocalLauncher().adopt(tmp_path / "none")
    (tmp_path / "status.json").write_text("{")
    with pytest.raises(LaunchError, match="cannot be read"):
        LocalLauncher().adopt(tmp_path)


def test_a_python_that_cannot_start_is_said(tmp_path: Path) -> None:
    request = LaunchRequest(tmp_path / "state", tmp_path / "log", tmp_path, {}, argv=["true"])
    with pytest.raises(LaunchError, match="The supervisor did not start"):
        LocalLauncher(python="/bin/false").launch(request)
    with pytest.raises(LaunchError, match=r"took over 0\.05 s"):
        LocalLauncher(python=_sleeper(tmp_path), timeout_s=0.05).launch(request)


def _sleeper(folder: Path) -> str:
    path = folder / "python"
    path.write_text("#!/bin/sh\nexec sleep 5\n")
    path.chmod(0o755)
    return str(path)
