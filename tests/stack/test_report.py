"""What stacks say in a checkpoint."""

from __future__ import annotations

from pathlib import Path

from tests.checkpoints.telling import section_text, written


def test_the_same_versions_are_told_once_with_the_launches_that_ran_on_them(tmp_path: Path) -> None:
    stack = {
        "type": "stack", "host": "h", "python": "3.12.3", "cuda": "12.9", "driver": "580.1", "os": "Debian 13",
        "packages": {"numpy": "2", "torch": "2.11.0", "sglang": "0.5.16"},
        "git": [{"path": "/src", "commit": "abc", "dirty": True}],
    }  # fmt: skip
    rendered = written(tmp_path, [
        {"type": "session", "name": "s"}, {"type": "host", "key": "h", "name": "box"},
        *({"type": "launch", "key": f"l{n}", "state": "exited"} for n in range(3)),
        *(stack | {"launch": f"l{n}"} for n in range(2)), {"type": "stack", "launch": "l2", "packages": {"vllm": "1"}},
    ])  # fmt: skip
    assert section_text(rendered, "stack") == [
        "- K3 of L3: vllm 1",
        "- K1, K2 of L1, L2 on H1 box: Python 3.12.3; driver 580.1; CUDA 12.9; Debian 13; sglang 0.5.16, torch 2.11.0, "
        "numpy 2; git /src abc (changed)",
    ]


def test_a_long_list_of_packages_is_counted(tmp_path: Path) -> None:
    packages = {f"p{n:02}": "1" for n in range(40)} | {"sglang": "0.5.16"}
    (line,) = section_text(
        written(tmp_path, [{"type": "session", "name": "s"}, {"type": "stack", "packages": packages}]), "stack"
    )
    assert line.startswith("- K1: sglang 0.5.16, p00 1, ")
    assert line.endswith(" and 16 more packages (`sitrep show K1`)")
