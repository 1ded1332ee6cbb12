"""What hosts say in a checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlmodel import Session
from tests.checkpoints.telling import section_text, written

from sitrepd.hardware.models import GpuSample, Host
from sitrepd.hardware.ranges import ranges
from sitrepd.sessions.models import SessionRow

AT = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


def gpu(index: int, name: str = "NVIDIA H200", **more: Any) -> dict[str, Any]:
    return {"index": index, "name": name} | more


def test_gpus_of_one_kind_are_told_once(tmp_path: Path) -> None:
    gpus = [*(gpu(n, memory_bytes=150754820096, pcie="gen5 x16") for n in (0, 1, 2)), gpu(3, "NVIDIA L4")]
    disk = {"path": "/data", "filesystem": "ext4", "total_bytes": 7 * 10**12, "free_bytes": 5, "network": False}
    host = {"type": "host", "name": "box", "gpus": gpus, "interconnect": "NVLink", "cpu": "Xeon", "cpu_count": 64}
    host |= {"memory_bytes": 2 * 10**12, "os": "Debian 13", "note": "shared", "disks": [disk, "tape"]}
    rendered = written(tmp_path, [{"type": "session", "name": "s"}, host])
    assert section_text(rendered, "hardware") == [
        "- H1 box: 3 × NVIDIA H200 150.8 GB (150754820096 bytes), gen5 x16 (GPU 0-2), 1 × NVIDIA L4 (GPU 3); "
        "interconnect NVLink; CPU Xeon; 64 CPUs; memory 2.0 TB (2000000000000 bytes); Debian 13; "
        "disks /data ext4 7.0 TB (7000000000000 bytes), tape; shared"
    ]


def test_the_latest_reading_of_each_gpu_is_told_with_its_time(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        for second in range(3):
            at = AT + timedelta(seconds=second)
            db.add(
                GpuSample(
                    host_id=1, gpu=0, at=at, utilization=90.0 + second, memory_used_bytes=10**10, clock_reasons=0x4
                )
            )
        db.add(GpuSample(host_id=1, gpu=1, at=AT, power_w=600.5, temperature_c=65.0))

    told = [{"type": "session", "name": "s"}, {"type": "host", "name": "box", "gpus": [gpu(0), gpu(1), gpu(2)]}]
    rendered = written(tmp_path, told, change)
    assert section_text(rendered, "hardware")[1:] == [
        "- H1 GPU 0 at 2026-12-01T03:00:02Z: 92.0 %, memory used 10.0 GB (10000000000 bytes), throttled: power cap",
        "- H1 GPU 1 at 2026-12-01T03:00:00Z: 600.5 W, 65.0 °C",
    ]
    assert all(item["volatile"] for item in rendered["sections"][-1]["items"][1:])


def test_a_host_without_gpus_says_that_none_were_recorded(tmp_path: Path) -> None:
    told = [{"type": "session", "name": "s"}, {"type": "host", "name": "box"}]
    assert section_text(written(tmp_path, told), "hardware") == ["- H1 box: GPUs not recorded"]


def test_ranges_of_numbers() -> None:
    assert ranges([6, 0, 1, 2, 4]) == "0-2, 4, 6"
    assert ranges([]) == ""


def test_a_session_that_names_no_host_shows_the_machine_that_is_observed(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        db.add(Host(id=7, name="vm", machine="m", provenance="observed", note="no NVIDIA GPU found"))
        opened = db.get(SessionRow, 1)
        assert opened is not None
        opened.imported_from = None

    rendered = written(tmp_path, [{"type": "session", "name": "s"}], change)
    assert section_text(rendered, "hardware") == ["- H7 vm: no NVIDIA GPU found"]


def test_an_imported_session_that_names_no_host_has_none(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        db.add(Host(id=7, name="vm", machine="m", provenance="observed"))

    rendered = written(tmp_path, [{"type": "session", "name": "s"}, {"type": "directive", "text": "x"}], change)
    assert "hardware" not in [section["name"] for section in rendered["sections"]]
