"""What SGLang writes when a start fails: one traceback a rank, then the launcher ends its whole tree by SIGKILL."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from sitrepd.demo._args import ReplayArgs
from sitrepd.demo._tape import Tape, shuffled

_SRT = "/opt/ml-env/lib/python3.12/site-packages/sglang/srt"
_FRAMES = {
    "weights": [
        ("managers/scheduler.py", 1033, "init_tp_model_worker", "self.tp_worker = TpModelWorker(**worker_kwargs)"),
        ("model_executor/model_runner.py", 715, "initialize", "self.load_model()"),
    ],
    "graphs": [
        ("managers/scheduler.py", 1130, "init_model_worker", "self.init_tp_model_worker()"),
        ("model_executor/model_runner.py", 982, "init_cuda_graphs", "self.graph_runner.capture()"),
    ],
}
_OOM = """\
Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 672.00 MiB. GPU {rank} has a total \
capacity of 94.97 GiB of which 214.75 MiB is free. \
Including non-PyTorch memory, this process has 94.75 GiB memory in use.
Possible solutions:
1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)
2. set --cuda-graph-max-bs-decode to a smaller value (e.g., 16)
3. disable decode CUDA graph by --cuda-graph-backend-decode=disabled. (Not recommended. Huge performance loss)"""
_SHAPE = """\
AssertionError: Attempted to load weight (torch.Size([7168, 21504])) into parameter (torch.Size([4096, 12288]))"""


def missing_weights(tape: Tape, args: ReplayArgs) -> NoReturn:
    """0.5.23's refusal of a checkpoint whose index names a file that is not there."""
    folder = args.resolved["model_path"]
    error = (
        f"RuntimeError: model.safetensors.index.json references 1 shard file(s) missing from {folder} "
        "(incomplete download?): ['model-00041-of-000064.safetensors']"
    )
    _die(tape, args, "weights", error)


def out_of_memory(tape: Tape, args: ReplayArgs) -> NoReturn:
    _die(tape, args, "graphs", _OOM)


def draft_shape(tape: Tape, args: ReplayArgs) -> NoReturn:
    _die(tape, args, "weights", _SHAPE)


def _die(tape: Tape, args: ReplayArgs, where: str, error: str) -> NoReturn:
    for rank in shuffled(tape, args.ranks):
        shown = error.replace("{rank}", str(rank))
        tape.record(f"Scheduler hit an exception: {_traceback(where)}{shown}\n", rank if len(args.ranks) > 1 else None)
    tape.record("Received sigquit from a child process. It usually means the child failed.")
    pid = os.getpid()
    tape.record(f"kill_process_tree called: parent_pid={pid}, include_parent=True, pid={pid}")
    os.kill(pid, signal.SIGKILL)
    raise SystemExit(1)


def _traceback(where: str) -> str:
    lines = ["Traceback (most recent call last):"]
    head = ("managers/scheduler.py", 6362, "run_scheduler_process", "scheduler = Scheduler(server_args, port_args)")
    for path, number, function, source in [head, *_FRAMES[where]]:
        lines += [f'  File "{_SRT}/{path}", line {number}, in {function}', f"    {source}"]
    return "\n".join(lines) + "\n"
