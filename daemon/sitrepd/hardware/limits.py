"""What a control group allows us: memory, processor time, and which processors; the tightest between us and the top."""

from __future__ import annotations

from pathlib import Path

from sitrepd.hardware.files import read

_UNLIMITED_BYTES = 1 << 60


def memory_limit(root: Path = Path("/")) -> int | None:
    """In bytes, of cgroup version 2 or 1; None where there is none."""
    found = _told(root, "memory.max", "memory", "memory.limit_in_bytes")
    limits = [limit for text in found if (limit := _bytes(text)) is not None]
    return min(limits, default=None)


def cpu_limit(root: Path = Path("/")) -> float | None:
    """Processors' worth of time: a quota of 250 ms in 100 ms is 2.5; None where there is none."""
    newer = [_quota(*text.split()) for text in _told(root, "cpu.max") if len(text.split()) == 2]
    older = [
        _quota(read(folder / "cpu.cfs_quota_us"), read(folder / "cpu.cfs_period_us")) for folder in _groups(root, "cpu")
    ]
    return min((share for share in (*newer, *older) if share is not None), default=None)


def cpuset(root: Path = Path("/")) -> str | None:
    """The processors that our group may use, as `0-3,8`; None where no group says so."""
    told = _told(root, "cpuset.cpus.effective", "cpuset", "cpuset.effective_cpus")
    return next((text for text in told if text), None)


def _quota(quota: str | None, period: str | None) -> float | None:
    if quota is None or period is None or not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return round(int(quota) / int(period), 2)


def _told(root: Path, newer: str, controller: str | None = None, older: str | None = None) -> list[str]:
    """What the files of our groups hold, innermost first."""
    files = [folder / newer for folder in _groups(root, None)]
    if controller and older:
        files += [folder / older for folder in _groups(root, controller)]
    return [text for path in files if (text := read(path)) is not None]


def _groups(root: Path, controller: str | None) -> list[Path]:
    """Folders from our group up to the top: of the unified hierarchy, or of a controller of version 1."""
    folders: list[Path] = []
    for line in (read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, group = [*line.split(":", 2), "", ""][:3]
        if controller is None and not controllers:
            folders += _upwards(root / "sys/fs/cgroup", group)
        elif controller is not None and controller in controllers.split(","):
            folders += _upwards(root / "sys/fs/cgroup" / controller, group)
    return folders


def _upwards(top: Path, group: str) -> list[Path]:
    below = top / group.lstrip("/")
    return [folder for folder in (below, *below.parents) if folder == top or top in folder.parents]


def _bytes(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) < _UNLIMITED_BYTES else None
