from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sitrepd.launches.follow import MAX_LINE_BYTES, LogFollower, LogPosition, end_of

MIB = 1024 * 1024


def _drain(follower: LogFollower, limit_bytes: int = MIB) -> list[str]:
    lines = follower.read(limit_bytes)
    while not follower.at_end:
        lines += follower.read(limit_bytes)
    return lines


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _restarted(follower: LogFollower) -> LogFollower:
    position = follower.position
    follower.close()
    assert position is not None
    return LogFollower(follower.path, LogPosition.from_json(json.loads(json.dumps(position.to_json()))))


def test_lines_end_with_any_line_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"unix\nwindows\r\nredrawn\r\rlast\n\rbar 50%")
    follower = LogFollower(log)

    assert _drain(follower) == ["unix", "windows", "redrawn", "", "last", ""]
    assert follower.partial == "bar 50%"
    assert follower.status == "following"


def test_partial_line_is_shown_but_not_consumed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\nshards 1/8")
    follower = LogFollower(log)
    assert _drain(follower) == ["one"]
    assert follower.position is not None
    assert follower.position.offset == 4

    _append(log, b" and 2/8")
    assert _drain(follower) == []
    assert follower.partial == "shards 1/8 and 2/8"
    _append(log, b"\n")
    assert _drain(follower) == ["shards 1/8 and 2/8"]
    assert follower.partial == ""


def test_carriage_return_and_newline_may_come_apart(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\r")
    follower = LogFollower(log)
    assert _drain(follower) == ["one"]
    follower = _restarted(follower)

    _append(log, b"\ntwo\r\n")
    assert _drain(follower) == ["two"]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.text("ab\r\né", max_size=6).map(str.encode), max_size=8),
    limit=st.integers(1, 9),
    restart=st.booleans(),
)
def test_lines_are_the_same_however_they_arrive(tmp_path: Path, pieces: list[bytes], limit: int, restart: bool) -> None:
    log = tmp_path / "log"
    log.unlink(missing_ok=True)
    log.touch()
    follower = LogFollower(log)
    lines: list[str] = []
    for piece in pieces:
        _append(log, piece)
        lines += _drain(follower, limit)
        if restart:
            follower = _restarted(follower)

    whole = b"".join(pieces)
    expected = [line.decode() for line in whole.splitlines()]
    if expected and whole[-1:] not in (b"\r", b"\n"):
        _drain(follower)
        assert follower.partial == expected.pop()
    assert lines == expected
    follower.close()


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff\xfe caf\xc3\xa9 \xc3\n" + bytes(range(256)) + b"\nend\n")

    lines = _drain(LogFollower(log))
    assert lines[0] == "\ufffd\ufffd café \ufffd"
    assert lines[-1] == "end"


@pytest.mark.parametrize("size", [MAX_LINE_BYTES - 1, MAX_LINE_BYTES, MAX_LINE_BYTES + 1, 3 * MIB + 5])
@pytest.mark.parametrize("limit", [1000, MIB])
def test_long_lines_are_cut(tmp_path: Path, size: int, limit: int) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"before\n" + b"x" * size + b"\nafter\n")

    before, long, after = _drain(LogFollower(log), limit)
    assert (before, after) == ("before", "after")
    assert long == ("x" * size if size <= MAX_LINE_BYTES else "x" * MAX_LINE_BYTES + "…")


def test_hundred_megabytes_without_a_line_end_bloat_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        file.write(b"before\n")
        for _ in range(100):
            file.write(b"x" * MIB)
    follower = LogFollower(log)
    assert _drain(follower) == ["before"]
    assert len(follower.partial) == MAX_LINE_BYTES + 1
    assert follower.position is not None
    assert follower.position.offset == 7

    _append(log, b"\nafter\n")
    long, after = _drain(follower)
    assert (len(long), after) == (MAX_LINE_BYTES + 1, "after")


def test_rename_is_read_to_its_end_before_the_new_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    follower = LogFollower(log)
    assert _drain(follower) == ["one"]

    log.rename(tmp_path / "log.1")
    _append(tmp_path / "log.1", b"two\nunfinished")
    assert _drain(follower) == ["two"]
    assert follower.status == "vanished"
    log.touch()
    _append(tmp_path / "log.1", b" business")
    assert _drain(follower) == []  # the new file is empty: the writer may still hold the old one

    log.write_bytes(b"new\n")
    lines = follower.read()
    assert (lines, follower.partial) == (["unfinished business"], "")
    assert "rotated" in follower.notices[0]
    assert _drain(follower) == ["new"]
    assert follower.status == "following"


def test_rename_while_nobody_reads(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    follower = LogFollower(log)
    _drain(follower)
    log.rename(tmp_path / "log.1")
    _append(tmp_path / "log.1", b"two\n")
    log.write_bytes(b"three\n")

    assert _drain(_restarted(follower)) == ["two", "three"]


def test_replaced_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"[2026-12-01 01:10:09] one\ntwo\n")
    follower = LogFollower(log)
    _drain(follower)
    log.unlink()
    (tmp_path / "other").write_bytes(b"[2026-12-01 09:00:00] new\nlonger than the old one was\n")
    (tmp_path / "other").rename(log)

    again = _restarted(follower)
    assert again.read()[0] == "[2026-12-01 09:00:00] new"
    assert "replaced" in again.notices[0] or "rewritten" in again.notices[0]


def test_copied_file_goes_on_where_it_was(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    follower = LogFollower(log)
    _drain(follower)
    (tmp_path / "copy").write_bytes(log.read_bytes() + b"three\n")
    os.replace(tmp_path / "copy", log)

    assert _drain(_restarted(follower)) == ["three"]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("new", [b"new\n", b"[01:20] another start whose log has grown past the old one\n"])
def test_truncation_begins_again_and_says_so(tmp_path: Path, new: bytes, restart: bool) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"[01:10] one\ntwo\nhalf")
    follower = LogFollower(log)
    _drain(follower)
    with log.open("r+b") as file:
        file.truncate(0)
        file.write(new)
    if restart:
        follower = _restarted(follower)

    assert follower.read() == [new.decode().rstrip()]
    assert "truncated" in follower.notices[0]
    assert follower.partial == ""
    assert follower.read() == []
    assert follower.notices == []


def test_hole_left_by_a_truncation_is_skipped(tmp_path: Path) -> None:
    """A writer without O_APPEND goes on at its old place after copytruncate."""
    log = tmp_path / "log"
    with log.open("wb", buffering=0) as writer:
        writer.write(b"x" * 200_000 + b"\n")
        follower = LogFollower(log)
        _drain(follower)
        os.truncate(log, 0)
        writer.write(b"[01:20] after\n")

    assert _drain(follower) == ["[01:20] after"]


def test_file_that_comes_later(tmp_path: Path) -> None:
    log = tmp_path / "sub" / "log"
    follower = LogFollower(log)
    assert follower.read() == []
    assert (follower.status, follower.at_end, follower.position) == ("waiting", True, None)
    assert "does not exist yet" in follower.problem

    log.parent.mkdir()
    log.write_bytes(b"one\n")
    assert _drain(follower) == ["one"]
    assert (follower.status, follower.problem) == ("following", "")
    assert follower.modified_at is not None


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").touch()
    for name, word in {"": "folder", "pipe": "pipe", "file/log": "path"}.items():
        follower = LogFollower(tmp_path / name)
        assert follower.read() == []
        assert (follower.status, word in follower.problem) == ("not_a_file", True), follower.problem
    device = LogFollower("/dev/null")
    assert device.read() == []
    assert "device" in device.problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_says_what_would_help(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\n")
    log.chmod(0)
    follower = LogFollower(log)
    assert follower.read() == []
    assert follower.status == "unreadable"
    assert "chmod" in follower.problem
    log.chmod(0o600)
    assert _drain(follower) == ["one"]


def test_name_that_is_too_long_is_a_problem_not_an_error(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path / ("x" * 300))
    assert follower.read() == []
    assert follower.status == "unreadable"
    assert "too long" in follower.problem


def test_finish_gives_the_unfinished_line_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\nValueError: no end")
    follower = LogFollower(log)
    assert _drain(follower) == ["one"]
    assert follower.finish() == ["ValueError: no end"]
    assert follower.finish() == []
    assert follower.position is not None
    assert follower.position.offset == log.stat().st_size


def test_log_that_is_appended_to_is_read_from_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert end_of(log) is None
    log.write_bytes(b"an earlier start\n")
    position = end_of(log)
    _append(log, b"this start\n")
    assert _drain(LogFollower(log, position)) == ["this start"]

    log.write_bytes(b"short\n")  # the command said `>` after all
    assert _drain(LogFollower(log, position)) == ["short"]
