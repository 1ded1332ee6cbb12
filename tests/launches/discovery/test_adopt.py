"""Servers that somebody else started are followed as launches, each once."""

from __future__ import annotations

from tests.helpers import free_port
from tests.launches.discovery.servers import Servers, launches, servers_now, until_followed, watching


def test_a_server_started_with_nohup_is_followed(servers: Servers) -> None:
    port = free_port()
    with watching(servers) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        words = " ".join(servers.argv(port, "--tp-size", "2", "--api-key", "sk-1234567890abcdef"))
        servers.shell(
            f"NCCL_PROTO=LL HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 nohup {words} > s.log 2>&1 &",
            env={"FAKE_RANKS": "2", "FAKE_S": "3"},
        )
        pid = servers.main()
        launch = until_followed(daemon, pid, "ready")
        assert (launch["id"], launch["session"], launch["engine"]) == ("L1", "S1", "sglang")
        assert (launch["provenance"], launch["watched"], launch["port"]) == ("observed", True, port)
        assert launch["log_path"] == str(servers.folder / "s.log")
        assert launch["cwd"] == str(servers.folder)
        assert launch["env"]["NCCL_PROTO"] == "LL"
        assert launch["env"]["HF_TOKEN"] == "${HF_TOKEN}"
        assert launch["argv"][1:3] == ["-m", "sglang.launch_server"]
        assert launch["argv"][-1] == "${API_KEY}"
        assert "PATH" not in launch["env"]
        assert [phase["name"] for phase in launch["phases"]][:2] == ["starting", "dist_init"]
        told = next(one for one in servers_now(daemon)["servers"] if one["pid"] == pid)
        assert told["launch"] == "L1"
        assert told["state"] == "ready"
        assert [rank["title"] for rank in told["ranks"]] == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
        assert told["listening"] == [port]
        assert "sk-1234567890abcdef" not in str(told)
        assert len(launches(daemon)) == 1
