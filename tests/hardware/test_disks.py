from __future__ import annotations

import os
import shutil

from sitrepd.hardware.disks import Mount, disks, mount_of, parse_mountinfo, real_mounts

MOUNTINFO = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 0:33 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a
30 27 259:1 /pods/7/hosts /etc/hosts rw,relatime - ext4 /dev/nvme0n1p1 rw
31 27 259:1 /pods/7/cache /cache rw,relatime shared:4 master:2 - ext4 /dev/nvme0n1p1 rw
32 27 259:1 / /host rw,relatime shared:4 - ext4 /dev/nvme0n1p1 rw
33 27 9:0 / /models\040of\040ours rw - xfs /dev/md0 rw
34 27 0:50 / /home rw - nfs4 filer:/home rw
35 27 0:51 / /dev/shm rw - tmpfs tmpfs rw
36 33 0:52 / /models\040of\040ours/s3 rw - fuse.goofys bucket rw
a line that is cut
""".strip().splitlines()


def test_mounts_of_a_container():
    mounts = parse_mountinfo(MOUNTINFO)
    assert len(mounts) == 9
    assert Mount("/models of ours", "/dev/md0", "xfs", "9:0", "/") in mounts
    assert sorted(mount.path for mount in real_mounts(mounts)) == ["/", "/host", "/models of ours"]


def test_a_later_mount_hides_the_earlier():
    lines = ["1 0 8:1 / /data rw - ext4 /dev/sda1 rw", "2 1 8:2 / /data rw - ext4 /dev/sdb1 rw"]
    assert [mount.device for mount in parse_mountinfo(lines)] == ["/dev/sdb1"]


def test_a_path_lies_on_the_nearest_mount_above_it():
    mounts = parse_mountinfo(MOUNTINFO)

    def at(path: str) -> str | None:
        mount = mount_of(path, mounts)
        return mount.path if mount else None

    assert at("/models of ours/kimi") == "/models of ours"
    assert at("/models of ours/s3/x") == "/models of ours/s3"
    assert at("/models of ours-2") == "/"
    assert at("/home") == "/home"
    assert mount_of("/home", []) is None


def test_network_file_systems_are_known():
    network = [mount.path for mount in parse_mountinfo(MOUNTINFO) if mount.network]
    assert network == ["/home", "/models of ours/s3"]


def test_the_disk_of_a_real_path_with_its_free_space(tmp_path):
    found = disks([tmp_path])
    [disk] = [disk for disk in found if str(tmp_path) in disk.holds]
    usage = shutil.disk_usage(tmp_path)
    assert os.path.ismount(disk.path)
    assert disk.total_bytes == usage.total
    assert disk.free_bytes is not None
    assert abs(disk.free_bytes - usage.free) < 1 << 30


def test_a_mount_that_cannot_be_asked_has_no_sizes(tmp_path):
    table = tmp_path / "mountinfo"
    table.write_text(
        f"1 0 8:1 / {tmp_path}/gone rw - ext4 /dev/sda1 rw\n2 0 0:9 / {tmp_path}/far rw - nfs4 box:/x rw\n"
    )
    sizes = [(d.filesystem, d.network, d.total_bytes, d.free_bytes) for d in disks([tmp_path / "far/model"], table)]
    assert sizes == [("nfs4", True, None, None), ("ext4", False, None, None)]


def test_without_a_mount_table_there_are_no_disks(tmp_path):
    assert disks([tmp_path], tmp_path / "none") == []
