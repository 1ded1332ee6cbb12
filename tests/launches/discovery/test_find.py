from __future__ import annotations

import pytest
from tests.launches.discovery.tables import process, table

from sitrepd.launches.discovery.find import find
from sitrepd.launches.discovery.table import read_table

SERVER = "python -m sglang.launch_server --port 30000"
SPAWNED = ("python", "-c", "from multiprocessing.spawn import spawn_main; spawn_main()", "--multiprocessing-fork")


def test_wrappers_are_not_the_server_and_ranks_belong_to_it() -> None:
    found = find(
        table(
            process(10, ("bash", "-c", SERVER), name="bash"),
            process(11, f"timeout 3600 {SERVER}", 10),
            process(12, SERVER, 11, group=10),
            process(13, "sglang::scheduler_TP1", 12, group=10),
            process(14, "sglang::scheduler_TP0", 12, group=10),
            process(15, "sglang::detokenizer", 12, group=10),
            process(16, f"grep {SERVER}", 10),
        )
    )
    (server,) = found.servers
    assert (server.main.pid, server.kind) == (12, "sglang")
    assert [rank.pid for rank in server.ranks] == [15, 14, 13]
    assert (found.loose, found.stray) == ((), ())


def test_a_forked_copy_is_no_second_server_but_another_command_is() -> None:
    found = find(
        table(
            process(12, SERVER),
            process(13, SERVER, 12),
            process(14, "python -m sglang.launch_server --port 30001", 12),
            process(15, "sglang::scheduler", 14),
        )
    )
    assert [(one.main.pid, len(one.ranks)) for one in found.servers] == [(12, 0), (14, 1)]


def test_api_servers_of_one_vllm_are_one_server() -> None:
    found = find(
        table(
            process(20, "python /env/bin/vllm serve /m --api-server-count 2"),
            process(21, "VLLM::APIServer_0", 20),
            process(22, "VLLM::APIServer_1", 20),
            process(23, "VLLM::EngineCore", 20),
            process(24, "VLLM::Worker_TP0", 23),
        )
    )
    (server,) = found.servers
    assert [rank.title for rank in server.ranks] == [
        "VLLM::APIServer_0", "VLLM::APIServer_1", "VLLM::EngineCore", "VLLM::Worker_TP0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "reaper", ["/sbin/init", "/usr/lib/systemd/systemd --user", "/usr/bin/containerd-shim-runc-v2"]
)
def test_ranks_that_init_took_in_are_loose(reaper: str) -> None:
    found = find(
        table(process(5, reaper), process(13, "sglang::scheduler_TP0", 5), process(14, "sglang::detokenizer", 13))
    )
    assert [rank.pid for rank in found.loose] == [14, 13]
    assert found.servers == ()


def test_ranks_below_our_supervisor_are_loose_too() -> None:
    words = "python -I -S /env/lib/sitrepd/launches/supervise.py /store/launches/L3"
    found = find(table(process(5, words), process(13, "sglang::scheduler_TP0", 5), process(14, SPAWNED, 5)))
    assert [rank.pid for rank in found.loose] == [13]
    assert [one.pid for one in found.stray] == [14]


def test_an_engine_inside_another_program_is_no_leftover() -> None:
    found = find(
        table(process(5, "python offline.py"), process(13, "sglang::scheduler_TP0", 5), process(14, SPAWNED, 5))
    )
    (server,) = found.servers
    assert (server.embedded, server.main.pid) == (True, 5)
    assert (found.loose, found.stray) == ((), ())


def test_a_rank_that_left_the_tree_is_found_by_the_group_of_its_server() -> None:
    found = find(table(process(12, SERVER), process(13, "sglang::scheduler", 1, group=12)))
    assert [rank.pid for rank in found.servers[0].ranks] == [13]
    earlier = find(table(process(12, SERVER, start=500), process(13, "sglang::scheduler", 1, group=12, start=400)))
    assert [rank.pid for rank in earlier.loose] == [13]


def test_parents_in_a_circle_do_not_hang_it() -> None:
    assert find(table(process(7, "sglang::scheduler", 8), process(8, "sglang::scheduler", 7))).loose


def test_a_benchmark_counts_once_with_its_workers() -> None:
    words = "python -m sglang.bench_serving --num-prompts 10"
    found = find(table(process(30, f"uv run {words}"), process(31, words, 30), process(32, words, 31)))
    assert [(one.name, one.process.pid) for one in found.benchmarks] == [("sglang.bench_serving", 31)]


def test_the_real_table_has_this_process_and_no_kernel_threads() -> None:
    import os

    found = read_table()
    assert found[os.getpid()].argv
    assert 2 not in found
    assert all(one.stat.parent != 2 for one in found.values())
