from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlmodel import Session, col, select
from tests.daemons import application, running_daemon
from tests.helpers import wait_until

from sitrepd.hardware.gpus import GpuFacts
from sitrepd.hardware.kernel import Message, OomKill, Xid, of_journal, of_record, understood
from sitrepd.hardware.kernel_log import KernelLog
from sitrepd.hardware.live import LiveHardware
from sitrepd.storage.base import Event

OFF_THE_BUS = "NVRM: Xid (PCI:0000:c1:00): 79, pid=4711, name=python3, GPU has fallen off the bus."
KILLED = (
    "Memory cgroup out of memory: Killed process 4711 (sglang::schedul) total-vm:1kB, anon-rss:2kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:9kB oom_score_adj:0"
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (OFF_THE_BUS, Xid("0000:c1:00.0", 79, "the GPU has fallen off the bus", 4711, "python3", OFF_THE_BUS)),
        (
            "NVRM: Xid (PCI:0000:65:00): 31, pid='<unknown>', name=<unknown>, Ch 00000008, intr 00000000. MMU Fault",
            ("0000:65:00.0", 31, "a program accessed memory that it may not (MMU fault)", None, None),
        ),
        ("NVRM: Xid (0002:41:00): 48, DBE at 0x1", ("0002:41:00.0", 48, "an uncorrectable (double-bit) ECC error", None, None)),
        (
            "[  812.1] NVRM: Xid (PCI:00000000:C1:00.0): 999, what is this",
            ("0000:c1:00.0", 999, "not in the catalogue that Sitrep knows", None, None),
        ),
        (
            "NVRM: Xid (PCI:0000:c1:00 GPU-I:05): 94, pid=7194, name=python, Contained: SM (0x1). RST: No, D-RST: No",
            ("0000:c1:00.0", 94, "an uncorrectable ECC error, contained in one program", 7194, "python"),
        ),
        (
            "NVRM: Xid (PCI:0000:18:00): 119, pid=1671, name=VLLM::EngineCore, Timeout after 6s of waiting for RPC response",
            ("0000:18:00.0", 119, "the GPU's system processor (GSP) did not answer in time", 1671, "VLLM::EngineCore"),
        ),
        (
            "NVRM: Xid (PCI:0009:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
            ("0009:01:00.0", 154, "what is to be done about the GPU has changed (reset or reboot wanted)", None, None),
        ),
        ("Killed process 9 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB", (9, "python3", False)),
        ("Killed process 9 (python3), UID 1000, total-vm:1kB, anon-rss:1kB", (9, "python3", False)),
        ("Out of memory: Kill process 9 (python3) score 900 or sacrifice child", None),
        (KILLED, OomKill(4711, "sglang::schedul", True, KILLED)),
        ("Out of memory: Killed process 12 (a (b) c) total-vm:1kB", (12, "a (b", False)),
        ("Killed process 12 (tidy) by hand", None),
        ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05", None),
        ("oom-kill:constraint=CONSTRAINT_MEMCG,task=python,pid=12,uid=0", None),
    ],
)  # fmt: skip
def test_what_the_kernel_says(text: str, told: Any):
    found = understood(text)
    if isinstance(told, tuple):
        assert isinstance(found, (Xid, OomKill))
        names = found.__slots__[:-1]  # type: ignore[union-attr]
        assert tuple(getattr(found, name) for name in names) == told
    else:
        assert found == told


def test_lines_of_both_logs():
    assert of_record("3,1234,812000001,-;NVRM: hello; there") == Message(812000001, "NVRM: hello; there")
    assert of_record(" SUBSYSTEM=pci") is None
    assert of_journal('{"MESSAGE": "hi", "_SOURCE_MONOTONIC_TIMESTAMP": "5", "__MONOTONIC_TIMESTAMP": "6"}') == Message(
        5, "hi"
    )
    assert of_journal('{"MESSAGE": "hi", "__MONOTONIC_TIMESTAMP": "6"}') == Message(6, "hi")
    for broken in ("[78, 255]", "null"):
        assert of_journal(f'{{"MESSAGE": {broken}, "__MONOTONIC_TIMESTAMP": "6"}}') is None
    for broken in ("", "[]", "{}", '{"MESSAGE": null, "__MONOTONIC_TIMESTAMP": "x"}'):
        assert of_journal(broken) is None


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Any]:
    with application(tmp_path / "store", kernel_log="/nowhere/kmsg") as client:
        own = client.app.state.runtime  # type: ignore[attr-defined]
        facts = (GpuFacts(4, uuid="GPU-4", pci_bus_id="0000:c1:00.0"),)
        yield SimpleNamespace(
            store=own.store, settings=own.settings, host_id=own.host_id, live={"hardware": LiveHardware(facts=facts)}
        )


def follow(runtime: Any, path: Path) -> None:
    """Until the log ends, as a file does and the kernel's does not."""
    runtime.settings = runtime.settings.model_copy(update={"kernel_log": path})
    asyncio.run(KernelLog(runtime, runtime.host_id).run())


def told(runtime: Any) -> list[tuple[str, dict[str, Any]]]:
    def read(db: Session) -> list[tuple[str, dict[str, Any]]]:
        query = select(Event).where(col(Event.kind).in_(("host.xid", "host.oom_kill"))).order_by(col(Event.id))
        return [(event.kind, event.data) for event in db.exec(query).all()]

    with runtime.store.read() as db:
        return read(db)


def test_messages_become_events_once(runtime: Any, tmp_path: Path):
    log = tmp_path / "kmsg"
    log.write_text(f"3,1,1000,-;something else\n3,2,2000,-;{OFF_THE_BUS}\n SUBSYSTEM=pci\n6,3,3000,-;{KILLED}\n")
    follow(runtime, log)
    [(first, xid), (second, killed)] = told(runtime)
    assert (first, second) == ("host.xid", "host.oom_kill")
    assert (xid["gpu"], xid["xid"], xid["pid"], xid["text"]) == (4, 79, 4711, OFF_THE_BUS)
    assert (killed["name"], killed["cgroup"], killed["us"]) == ("sglang::schedul", True, 3000)
    with log.open("a") as more:
        more.write("3,4,4000,-;NVRM: Xid (PCI:0000:05:00): 63, row remapped\n")
    follow(runtime, log)
    assert len(told(runtime)) == 3
    assert told(runtime)[2][1]["gpu"] is None
    assert told(runtime)[2][1]["meaning"] == "a row of memory was remapped or a page retired after an ECC error"


def test_an_older_kernel_says_before_why_it_kills(runtime: Any, tmp_path: Path):
    log = tmp_path / "kmsg"
    why = "Memory cgroup out of memory: Kill process 4711 (python3) score 1974 or sacrifice child"
    killed = "Killed process 4712 (python3) total-vm:1kB, anon-rss:2kB, file-rss:0kB, shmem-rss:0kB"
    log.write_text(f"3,1,1000,-;{why}\n3,2,1001,-;{killed}\n3,3,2000,-;{killed}\n")
    follow(runtime, log)
    assert [(data["pid"], data["cgroup"]) for _, data in told(runtime)] == [(4712, True), (4712, False)]


def test_a_flood_is_cut(runtime: Any, tmp_path: Path):
    log = tmp_path / "kmsg"
    log.write_text("".join(f"3,{n},{n},-;NVRM: Xid (PCI:0000:c1:00): 94, n {n}\n" for n in range(500)))
    follow(runtime, log)
    assert [data["us"] for _, data in told(runtime)] == list(range(450, 500))


def test_what_is_repeated_for_long_is_told_of_some_of_the_time(runtime: Any):
    """One message a batch, ten a second, for two minutes; another GPU has its say meanwhile."""
    log = KernelLog(runtime, runtime.host_id)
    lines = [Message(100_000 * n, f"NVRM: Xid (PCI:0000:c1:00): 13, n {n}") for n in range(1, 1200)]
    lines.insert(900, Message(lines[899].us + 1, OFF_THE_BUS.replace("c1", "05")))

    async def take() -> None:
        for line in lines:
            await log._take([line])

    asyncio.run(take())
    seconds = [(data["pci"], data["us"] // 1_000_000) for _, data in told(runtime)]
    repeated = [second for pci, second in seconds if pci == "0000:c1:00.0"]
    assert (len(seconds), len(repeated)) == (101, 100)
    assert (repeated[0], repeated[49], repeated[50], repeated[99]) == (0, 5, 60, 65)


def test_the_journal_is_asked_where_the_log_may_not_be_read(
    runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tool = tmp_path / "bin" / "journalctl"
    tool.parent.mkdir()
    line = f'{{"MESSAGE": "{OFF_THE_BUS}", "_SOURCE_MONOTONIC_TIMESTAMP": "77"}}'
    tool.write_text(f"#!/bin/sh\necho not json\necho '{line}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    follow(runtime, Path("/nowhere/kmsg"))
    assert [(kind, data["us"]) for kind, data in told(runtime)] == [("host.xid", 77)]


def test_a_line_without_an_end_ends_the_following_alone(runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tool = tmp_path / "bin" / "journalctl"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nhead -c 3000000 /dev/zero\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tool.parent), prepend=":")
    follow(runtime, Path("/nowhere/kmsg"))
    assert told(runtime) == []


def test_without_either_nothing_is_known(runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    follow(runtime, Path("/nowhere/kmsg"))
    assert told(runtime) == []


@pytest.mark.slow
def test_a_daemon_follows_the_log(tmp_path: Path):
    log = tmp_path / "kmsg"
    os.mkfifo(log)
    writer = os.open(log, os.O_RDWR)
    try:
        with running_daemon(tmp_path / "store", kernel_log=log) as daemon:

            def seen() -> list[Any]:
                return [event for event in daemon.client.get("/api/v1/events").json() if event["kind"] == "host.xid"]

            os.write(writer, f"3,1,1000,-;{OFF_THE_BUS}\n".encode())
            wait_until(lambda: len(seen()) == 1)
            os.write(writer, b"3,2,2000,-;NVRM: Xid (PCI:0000:c1:00): 74, NVLink\n")
            found = wait_until(lambda: len(seen()) == 2 and seen())
            assert [event["data"]["xid"] for event in found] == [79, 74]
            assert daemon.end() == 0
    finally:
        os.close(writer)
