"""What a shell command does, by the programs that it runs and not by the words that stand in it."""

from __future__ import annotations

import pytest

from sitrepd.agents.words import kind_of, programs

SERVE = "python -m sglang.launch_server --model-path m --port 1"
BENCH = "python3 -m sglang.bench_serving --backend sglang"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (f"cd /x && source v/bin/activate && A=0 B='1 2' nohup {SERVE} > log 2>&1 &", "server"),
        (f"timeout -k 5 600 uv run {BENCH} | tee out", "benchmark"),
        ("bash -lc 'vllm serve m'", "server"),
        ("bash -c 'A=1 vllm serve m'", "server"),
        (f"for s in 1 2; do {BENCH} --x $s; done", "benchmark"),
        ("if true; then vllm serve m; fi", "server"),
        ("(vllm serve m &) ; sleep 1", "server"),
        (f"numactl --cpunodebind 0 {SERVE}", "server"),
        (f"{SERVE} & sleep 5; {BENCH}", "server"),
        (f"ssh -p 22 box '{SERVE}'", "server"),
        (f"docker run --gpus all -v /a:/b image {SERVE}", "server"),
        (f"srun -n 1 {BENCH}", "benchmark"),
        ("sudo -u bob env A=1 torchrun --nproc 8 train.py", "training"),
        ("python train_eagle3.py --epochs 2", "training"),
        ("nsys profile -o x python a.py", "profile"),
        ("git pull && make -j", "install"),
        ("uv pip install sglang==0.5.16", "install"),
        ("python -m pip install x", "install"),
        ("nvidia-smi -pl 400", "install"),
        ("nvidia-smi", "other"),
        ("git status", "other"),
        ("ls -la; cat x", "other"),
        ("pkill -f sglang.launch_server", "other"),
        ("grep -r sglang.launch_server .", "other"),
        (f"echo '{SERVE}'", "other"),
        (f"cat <<'EOF' > run.sh\n{SERVE}\nEOF\nls", "other"),
        (f"cat <<EOF > run.sh\nls\nEOF\n{SERVE}", "server"),
        ("docker ps", "other"),
        ("echo don't", "other"),
        ("", "other"),
        ("x" * 50_000, "other"),
    ],
)
def test_what_a_command_does(command: str, kind: str) -> None:
    assert kind_of(command) == kind


def test_programs_stand_without_what_is_around_them() -> None:
    line = f"A=1 nohup {BENCH} --output-file r.jsonl > out 2>&1 &"
    assert next(iter(programs(line))) == (*BENCH.split(), "--output-file", "r.jsonl")
