"""What is known beside the log: how the process ended, what the kernel said, the command, the model's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.launches.diagnosis.corpus import entries

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.engines.sglang import SglangEngine
from sitrepd.launches.kernel_log import parse_record
from sitrepd.launches.launchers.base import Exit

LOADING = next(one.lines for one in entries() if one.name.endswith("none/loading"))
READY = next(one.lines for one in entries() if one.name.endswith("none/ready"))
OOM = "Out of memory: Killed process 4711 (sglang::schedul) total-vm:901820340kB, anon-rss:503408616kB, file-rss:128kB"
XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def test_log_that_just_stops_was_killed_from_outside() -> None:
    told = diagnose(LOADING, exit=Exit(known=True, signal=9))
    assert (told.state, told.category) == ("failed", "host_oom_killed")
    assert "killed from outside" in told.summary
    assert told.evidence[0].text == "exit status of the process: -9"


def test_oom_killer_is_named_only_when_the_kernel_says_so() -> None:
    told = diagnose(LOADING, exit=Exit(known=True, signal=9), kernel_messages=[OOM])
    assert (told.category, told.summary) == ("host_oom_killed", "The OOM killer ended a process of the server")


def test_signal_after_a_crash_is_the_launchers_own() -> None:
    crash = [
        "[2026-11-02 10:01:11 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/x/sglang/srt/managers/scheduler.py", line 3, in event_loop_overlap',
        "KeyError: 'rid'",
        "",
        "[2026-11-02 10:01:12] Received sigquit from a child process. It usually means the child failed.",
    ]
    assert diagnose([*READY, *crash], exit=Exit(known=True, signal=9)).category == "scheduler_exception"


@pytest.mark.parametrize(
    ("ended", "state", "category"),
    [
        (Exit(known=True, signal=11), "failed", "segfault"),
        (Exit(known=True, exit_code=1), "failed", "unknown"),
        (Exit(known=True, exit_code=0), "exited", None),
        (Exit(known=True, signal=15), "exited", None),
        (Exit(known=False, reason="nobody saw it"), "ready", None),
    ],
)
def test_exit_without_a_word(ended: Exit, state: str, category: str | None) -> None:
    told = diagnose(READY, exit=ended)
    assert (told.state, told.category) == (state, category)


def test_fault_of_the_hardware_goes_before_what_it_caused() -> None:
    crash = [
        "[2026-11-02 10:01:11 TP5] Scheduler hit an exception: RuntimeError: CUDA error: unspecified launch failure"
    ]
    assert diagnose([*READY, *crash]).category == "cuda_illegal_memory"
    told = diagnose([*READY, *crash], kernel_messages=[XID])
    assert (told.category, told.evidence[0].text) == ("hardware_fault", XID)
    application = "NVRM: Xid (PCI:0000:c1:00): 31, pid=4711, name=python, MMU Fault"
    assert diagnose([*READY, *crash], kernel_messages=[application]).category == "cuda_illegal_memory"


def test_command_fills_the_fix_where_the_log_has_no_settings() -> None:
    facts = SglangEngine().describe(["sglang", "serve", "--model-path", "/models/k2", "--tp-size", "4"], {})
    told = diagnose(["OSError: [Errno 98] Address already in use"], facts=facts)
    assert "--port 30001" in str(told.fix)
    weights = diagnose(["RuntimeError: Cannot find any model weights with `/models/k2`"], facts=facts)
    assert "/models/k2" in str(weights.fix)


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, --cuda-graph-max-bs-prefill",
         "Write --cuda-graph-max-bs-decode instead of --cuda-graph-max-bs."),
        ("ambiguous option: --speculative-draft could match --speculative-draft-model-path, "
         "--speculative-draft-window-size",
         "Write --speculative-draft-model-path instead of --speculative-draft."),
        ("unrecognized arguments: --enable_metrics", "Write --enable-metrics instead of --enable_metrics."),
        ("unrecognized arguments: --max-model-len 8192", "Write --context-length instead of --max-model-len."),
        ("argument --attention-backend: invalid choice: 'flash' (choose from 'triton', 'fa3')",
         "--attention-backend takes one of: 'triton', 'fa3'"),
    ],
)  # fmt: skip
def test_right_flag_is_named(error: str, fix: str) -> None:
    told = diagnose(["usage: launch_server.py [-h]", f"launch_server.py: error: {error}"])
    assert (told.category, told.fix) == ("bad_flag", fix)


def test_shards_that_the_folder_lacks_are_named(tmp_path: Path) -> None:
    names = [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    index = {"weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in names[:2]:
        (tmp_path / name).write_bytes(b"x")
    told = diagnose(READY, model_folder=tmp_path)
    assert (told.state, told.category) == ("ready", "weights_missing")
    assert names[2] in told.summary
    (tmp_path / names[2]).write_bytes(b"x")
    assert diagnose(READY, model_folder=tmp_path).category is None
    assert diagnose(READY, model_folder=tmp_path / "gone").category is None


def test_holders_of_gpu_memory_are_named() -> None:
    line = "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes."
    told = diagnose([line], gpu_memory={1563: 66 << 30})
    assert "1563 (66.0 GiB)" in str(told.fix)


def test_secrets_do_not_come_through() -> None:
    key = "sk-ant-" + "a1B2c3D4e5" * 5
    told = diagnose([f"[2026-11-02 10:01:11 TP0] Scheduler hit an exception: ValueError: api_key={key}"])
    assert key not in json.dumps(told.to_json())


def test_record_of_the_kernel() -> None:
    assert parse_record(f"3,1042,5061012345,-;{XID}\n SUBSYSTEM=pci\n") == (5061012345, XID)
    assert parse_record("6,1043,5061012399,-;usb 1-1: new device") is None
    assert parse_record("torn") is None


def test_phase_that_took_less_before_is_slow() -> None:
    bar = "Multi-thread loading shards:  12% Completed | 8/64 [16:40<1:56:40, 125.00s/it]"
    usual = {"load_weights": 90.0}
    told = diagnose([*LOADING, bar], usual_s=usual)
    assert (told.state, told.phase, told.category) == ("loading", "load_weights", "slow_load")
    assert told.summary == "Loading weights takes 1000 s, and took 90 s before"
    assert diagnose(LOADING, usual_s=usual).category is None
    assert diagnose([*LOADING, bar]).category is None
