from __future__ import annotations

import gzip
import os
import socket
from pathlib import Path

import pytest
from tests.backfill.projects import EAGLE, log, read, reasons, write

from sitrepd.backfill.files import Walk, writers


def walked(folder: Path) -> list[str]:
    return [os.path.relpath(one.path, folder) for one in Walk().files([str(folder)])]


def test_loops_and_second_links_are_walked_once(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "a.log", "x")
    (tmp_path / "logs" / "up").symlink_to("..")
    (tmp_path / "logs" / "self").symlink_to(".")
    (tmp_path / "again").symlink_to(tmp_path / "logs")
    os.link(tmp_path / "logs" / "a.log", tmp_path / "b.log")
    (tmp_path / "dangling.log").symlink_to("nowhere")
    assert walked(tmp_path) == ["again/a.log"]


def test_a_folder_elsewhere_is_followed_but_devices_and_processes_are_not(tmp_path: Path) -> None:
    write(tmp_path / "data" / "s.log", "x")
    project = tmp_path / "project"
    project.mkdir()
    (project / "logs").symlink_to(tmp_path / "data")
    (project / "proc").symlink_to("/proc")
    (project / "root").symlink_to("/")
    os.mkfifo(project / "pipe.log")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(project / "s.sock"))
        assert walked(project) == ["logs/s.log"]


def test_weights_environments_and_repositories_stay_closed(tmp_path: Path) -> None:
    for name in (
        "model-1.safetensors", "x.pt", ".git/log", "venv/lib/a.log", "env/pyvenv.cfg", "env/a.log", "store/sitrep.db",
        "store/daemon.log", "node_modules/x.log", "train.py", "image.png", "old.tar.gz", "keep.log", "keep",
    ):  # fmt: skip
        write(tmp_path / name, "x")
    walk = Walk()
    assert [Path(one.path).name for one in walk.files([str(tmp_path)])] == ["keep", "keep.log"]
    assert walk.passed_over["model weights and checkpoints"] == 2
    assert sum(walk.passed_over.values()) == 10


def test_what_cannot_be_read_is_named_and_does_not_stop_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "good.log", log(EAGLE))
    write(tmp_path / "closed" / "x.log", "x")
    write(tmp_path / "closed.log", "x")
    (tmp_path / "broken.log.gz").write_bytes(gzip.compress(log(EAGLE).encode())[:3000])
    (tmp_path / "noise.log").write_bytes(bytes(range(256)) * 400)
    write(tmp_path / "empty.log", "")
    listdir, opened = os.listdir, open

    def refuse_folder(path: str) -> list[str]:
        if str(path).endswith("/closed"):
            raise PermissionError(13, "Permission denied")
        return listdir(path)

    def refuse_file(path: object, *more: object, **named: object) -> object:
        if str(path).endswith("/closed.log"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *more, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(os, "listdir", refuse_folder)
    monkeypatch.setattr("builtins.open", refuse_file)
    found = read(tmp_path)
    assert [start.state for start in found.starts if start.path.endswith("good.log")] == ["exited"]
    told = reasons(found)
    assert told["closed"] == told["closed.log"] == "cannot be read: Permission denied"
    assert told["broken.log.gz"].startswith("cannot be read: ")
    assert told["noise.log"] == "is no text"
    assert told["empty.log"] == "is empty"


def test_who_writes_a_file_is_known_and_who_reads_it_does_not_count(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", "x")
    told = path.stat()
    with path.open():
        assert (told.st_dev, told.st_ino) not in writers()
    with path.open("a"):
        assert writers()[told.st_dev, told.st_ino] == os.getpid()
