from __future__ import annotations

import pytest

from sitrepd.launches.discovery.words import benchmark_name, is_spawned, rank_title, server_kind

SERVERS = {
    "python -m sglang.launch_server --model-path /m": "sglang",
    "/env/bin/python3.12 -u -X dev -W ignore -m sglang.launch_server": "sglang",
    "python3 -um sglang.launch_server": "sglang",
    "python -msglang.launch_server": "sglang",
    "/env/bin/python /src/sglang/python/sglang/launch_server.py --tp 8": "sglang",
    "/env/bin/python /env/bin/sglang serve /m": "sglang",
    "sglang serve --model-path /m": "sglang",
    "python -m sglang.cli.main serve /m": "sglang",
    "sglang::http_server": "sglang",
    "/env/bin/python3 /env/bin/vllm serve /m": "vllm",
    "python -m vllm.entrypoints.openai.api_server --model /m": "vllm",
    "python -m vllm.entrypoints.cli.main serve /m": "vllm",
    "python /src/vllm/entrypoints/openai/api_server.py --model /m": "vllm",
    "VLLM::APIServer": "vllm",
    "/opt/llama.cpp/build/bin/llama-server -m m.gguf": "llama.cpp",
}
OTHERS = [
    "timeout 3600 python -m sglang.launch_server", "uv run python -m sglang.launch_server",
    "nohup python -m sglang.launch_server", "sudo -E python -m sglang.launch_server",
    "docker run --rm lmsysorg/sglang python3 -m sglang.launch_server", "ssh box python -m sglang.launch_server",
    "grep sglang.launch_server log", "pgrep -f sglang.launch_server", "tail -f sglang/launch_server.py",
    "vim /src/sglang/launch_server.py", "python -m sglang.bench_serving", "python tune.py -m sglang.launch_server",
    "python -m pdb -m sglang.launch_server", "python -m vllm.entrypoints.cli.main bench serve",
    "/env/bin/python /env/bin/vllm bench serve", "python -m sglang.check_env", "sglang generate",
    "sglang::scheduler_TP0", "VLLM::EngineCore", "python -m", "python", "", "/opt/llama-bench",
    "nsys profile python -m sglang.launch_server",
]  # fmt: skip


@pytest.mark.parametrize("words", SERVERS)
def test_a_server_is_known_by_the_program_that_runs(words: str) -> None:
    assert server_kind(words.split()) == SERVERS[words]


@pytest.mark.parametrize("words", OTHERS)
def test_who_only_speaks_of_a_server_is_none(words: str) -> None:
    assert server_kind(words.split()) is None


def test_a_shell_with_the_command_is_no_server() -> None:
    assert server_kind(["bash", "-c", "python -m sglang.launch_server > log 2>&1"]) is None
    assert server_kind(["python", "-c", "import sglang", "-m", "sglang.launch_server"]) is None
    assert server_kind(["tmux", "new-session", "-d", "python -m sglang.launch_server"]) is None


def test_ranks_are_known_by_their_titles() -> None:
    assert rank_title(["sglang::scheduler_TP0 "]) == "sglang::scheduler_TP0"
    assert rank_title(["VLLM::Worker_TP3", "x"]) == "VLLM::Worker_TP3"
    assert rank_title(["sglang", "serve"]) is None
    assert rank_title([]) is None


def test_children_of_multiprocessing_are_known() -> None:
    code = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"
    assert is_spawned(["/env/bin/python", "-c", code, "--multiprocessing-fork"])
    assert not is_spawned(["/env/bin/python", "-c", "print('from multiprocessing.spawn')"])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python3 -m sglang.bench_serving --backend sglang", "sglang.bench_serving"),
        ("python /src/sglang/bench_serving.py", "bench_serving"),
        ("/env/bin/python /env/bin/vllm bench serve", "vllm bench"),
        ("python benchmark_serving.py", "benchmark_serving"),
        ("/env/bin/python /env/bin/genai-perf profile", "genai-perf"),
        ("guidellm benchmark --target http://x", "guidellm benchmark"),
        ("bash -c bench_serving", None),
        ("vllm serve /m", None),
    ],
)
def test_benchmarks_are_noticed(words: str, name: str | None) -> None:
    assert benchmark_name(words.split()) == name
