"""Where in a log that was appended to the lines of one start begin."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from sitrepd.launches.discovery.begin import begin_of_start
from sitrepd.launches.discovery.containers import Container, container_in, log_files
from sitrepd.launches.wrapped import unwrapping

START = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def sglang_line(at: datetime, text: str) -> str:
    return f"[{at:%Y-%m-%d %H:%M:%S} TP0] {text}\n"


def lines(begin: datetime, count: int, step_s: float, *, filler: str = "") -> str:
    text = []
    for n in range(count):
        text.append(sglang_line(begin + timedelta(seconds=n * step_s), f"line {n}"))
        if filler and n % 7 == 0:
            text.append(filler)
    return "".join(text)


@pytest.mark.parametrize("seed", range(20))
def test_the_first_line_of_the_start_is_found_in_any_log(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    filler = rng.choice(["", "Traceback (most recent call last):\n", "x" * 300_000 + "\n", "a\rb\rc\r"])
    count = rng.choice([1, 2, 50, 4000])
    step = rng.uniform(0.1, 100)
    before = lines(START - timedelta(seconds=count * step + rng.uniform(5, 500)), count, step, filler=filler)
    after = lines(START + timedelta(seconds=rng.uniform(0, 20)), rng.choice([1, 300]), 1.0)
    log = tmp_path / "log"
    log.write_text(before + after)
    assert begin_of_start(str(log), START, UTC) == len(before)


def test_a_log_of_this_start_alone_begins_at_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("nohup: ignoring input\n" + lines(START, 10, 1))
    assert begin_of_start(str(log), START, UTC) == 0
    log.write_text("no time in it\n" * 10)
    assert begin_of_start(str(log), START, UTC) == 0
    log.write_text("")
    assert begin_of_start(str(log), START, UTC) == 0


def test_a_log_that_nobody_has_written_to_since_begins_at_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(lines(START - timedelta(hours=1), 10, 1) + "Traceback (most recent call last):\n  boom\n")
    os.utime(log, (0, START.timestamp() - 60))
    assert begin_of_start(str(log), START, UTC) == log.stat().st_size


def test_without_a_line_of_the_start_it_begins_behind_the_last_earlier_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = lines(START - timedelta(hours=1), 10, 1)
    log.write_text(before + "ImportError: no module\n")
    assert begin_of_start(str(log), START, UTC) == len(before)


def test_times_are_in_the_zone_of_the_server(tmp_path: Path) -> None:
    zone = ZoneInfo("America/New_York")
    log = tmp_path / "log"
    local = START.astimezone(zone)
    before = lines(local - timedelta(hours=2), 10, 60)
    log.write_text(before + lines(local, 3, 1))
    assert begin_of_start(str(log), START, zone) == len(before)
    assert begin_of_start(str(log), START, UTC) != len(before)


def test_times_without_a_year_are_read_too(tmp_path: Path) -> None:
    new_year = datetime(2027, 1, 1, 0, 0, 5, tzinfo=UTC)
    log = tmp_path / "log"
    log.write_text("INFO 12-31 23:59:01 [api_server.py:1] old\nINFO 01-01 00:00:06 [api_server.py:1] new\n")
    os.utime(log, (0, new_year.timestamp() + 9))
    assert begin_of_start(str(log), new_year, UTC) == log.read_text().index("INFO 01-01")


def test_a_container_log_is_read_by_its_own_times(tmp_path: Path) -> None:
    log = tmp_path / "log"
    old = '{"log":"[2030-01-01 00:00:00] x\\n","stream":"stderr","time":"2026-11-30T11:00:00.5Z"}\n'
    log.write_text(old + old.replace("T11:00", "T12:00"))
    assert begin_of_start(str(log), START, ZoneInfo("Asia/Tokyo"), "docker") == len(old)


def test_wrapped_lines_come_out_as_printed() -> None:
    docker = unwrapping("docker")
    assert docker('{"log":"one\\n","stream":"stdout"}') == ["one"]
    assert docker('{"log":"a piece ","stream":"stdout"}') == []
    assert docker('{"log":"and its rest\\n"}') == ["a piece and its rest"]
    assert docker('{"log":"0%\\r50%\\rdone\\n"}') == ["0%", "50%", "done"]
    assert docker("no json") == ["no json"]
    assert docker('["log"]') == ['["log"]']
    cri = unwrapping("cri")
    assert cri("2026-12-01T00:00:00.1Z stderr F [2026-12-01 00:00:00] hello") == ["[2026-12-01 00:00:00] hello"]
    assert cri("2026-12-01T00:00:00.1Z stderr P first ") == []
    assert cri("2026-12-01T00:00:00.1Z stderr F second") == ["first second"]
    assert cri("2026-12-01T00:00:00.1Z stdout F ") == [""]
    assert unwrapping(None)("as it is") == ["as it is"]


ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("cgroup", "engine"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", "docker"),
        (f"12:memory:/docker/{ID}\n0::/\n", "docker"),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", "podman"),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", "kubernetes"),
    ],
)
def test_a_container_is_known_by_its_cgroup(cgroup: str, engine: str) -> None:
    assert container_in(cgroup) == Container(engine, ID)
    assert container_in(cgroup, ours=cgroup) is None
    assert container_in("0::/user.slice/user-1000.slice\n") is None


def test_the_logs_of_container_engines(tmp_path: Path) -> None:
    (tmp_path / "etc/docker").mkdir(parents=True)
    assert log_files(Container("docker", ID), 0, tmp_path) == [
        (tmp_path / f"var/lib/docker/containers/{ID}/{ID}-json.log", "docker")
    ]
    (tmp_path / "etc/docker/daemon.json").write_text('{"data-root": "/data/docker"}')
    assert (
        log_files(Container("docker", ID), 0, tmp_path)[0][0] == tmp_path / f"data/docker/containers/{ID}/{ID}-json.log"
    )
    log = tmp_path / f"var/lib/containers/storage/overlay-containers/{ID}/userdata/ctr.log"
    log.parent.mkdir(parents=True)
    log.write_text("")
    assert log_files(Container("podman", ID), 0, tmp_path) == [(log, "cri")]
    pod = tmp_path / f"var/log/containers/pod_ns_sglang-{ID}.log"
    pod.parent.mkdir(parents=True)
    pod.write_text("")
    assert log_files(Container("kubernetes", ID), 0, tmp_path) == [(pod, "cri")]
    assert log_files(Container(), 0, tmp_path) == []
