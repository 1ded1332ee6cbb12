"""`sitrep demo`, run for real; its processes, sockets and files are gone whatever ends it."""

from __future__ import annotations

import http.client
import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.demo.running import Demo, listens
from tests.helpers import PATIENCE_S, wait_until

Run = Callable[..., Demo]
LAUNCHED = r'Launched (L\d+), "replay of the 3-step start"'
LINK = r"http://127\.0\.0\.1:(\d+)/open/\S+"
COMMAND = (
    "NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512 "
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 nohup ~/ml-env/bin/python3 -m sglang.launch_server --model-path "
    "/shared/kimi-k2.5-int4 --trust-remote-code --tp-size 8 --mem-fraction-static 0.88 --host 0.0.0.0 --port 8000 "
    "--num-continuous-decode-steps 4 --disable-custom-all-reduce --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /data/eagle3/output_100k_sglang/4 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --speculative-num-steps 3 > "
    "/data/eagle3/synth_100k/logs/sglang_eagle3_nccl_3step.log 2>&1 &"
)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Starts a demo; one that still runs at the end is killed, and so ends what is below it."""
    running: list[Demo] = []

    def _run(*flags: str, **options) -> Demo:
        running.append(Demo(tmp_path, *flags, **options))
        return running[-1]

    yield _run
    for demo in running:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.wait()
            wait_until(lambda demo=demo: not demo.left())


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """A finished `sitrep demo --once` of somebody with a store, a daemon and a session of their own."""
    folder = tmp_path_factory.mktemp("once")
    config = folder / "config.toml"
    config.write_text('data_dir = "/nowhere"\nidle_after_s = 1000.0\n')
    theirs = {
        "SITREP_DATA_DIR": str(folder / "theirs"), "SITREP_URL": "http://127.0.0.1:9", "SITREP_SESSION": "S99",
        "SITREP_CONFIG": str(config), "SITREP_IDLE_AFTER_S": "1000", "SITREP_PORT": "1", "SITREP_TOKEN": "theirs",
        "SITREP_CONVERSATION": "theirs", "SITREP_HOST": "0.0.0.0", "SITREP_TEMPLATES_DIR": "/nowhere",
        "HTTP_PROXY": "http://127.0.0.1:9", "HOME": "/proc/no/home", "XDG_STATE_HOME": None, "XDG_CONFIG_HOME": None,
    }  # fmt: skip
    demo = Demo(folder, "--once", env=theirs)
    try:
        demo.wait()
    finally:
        demo.process.kill()
    assert demo.process.returncode == 0, demo.out + demo.err
    return demo


def _checkpoint(demo: Demo) -> str:
    return demo.out.partition("sitrep resume")[2]


def test_once_ends_by_itself_and_leaves_nothing(once: Demo) -> None:
    demo = once
    assert demo.err == ""
    assert demo.left() == []
    ports = [int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)|--port (\d+)", demo.out) for port in port if port]
    assert len(set(ports)) >= 2, demo.out
    assert [port for port in set(ports) - {8000} if listens(port)] == []


def test_once_leaves_the_users_own_store_alone(once: Demo) -> None:
    demo = once
    assert not (demo.folder.parent / "theirs").exists()
    assert list((demo.folder.parent / "empty").iterdir()) == []


@pytest.mark.parametrize(
    "said",
    [
        "88.8 tok/s", "94.0 tok/s", "+5.9 %", "85.1 tok/s", "86.7 tok/s",
        "19 %", "47 %", "Hidden states differ between training and inference",
        "No hacks that cut precision.", "Only legitimate throughput improvements count.",
        "Optimize from data, do not guess.",
        "When the 3-step server is ready, run the same benchmark on it and complete the step-count curve.",
        "replay of the 3-step start",
    ],
)  # fmt: skip
def test_checkpoint_carries(once: Demo, said: str) -> None:
    assert said in _checkpoint(once)


def test_checkpoint_names_two_steps_as_the_best(once: Demo) -> None:
    lines = [line for line in _checkpoint(once).splitlines() if "94.0 tok/s" in line]
    assert any("2 steps" in line and "+5.9 %" in line for line in lines), lines
    assert any("best" in line.lower() for line in lines), lines


def test_checkpoint_has_the_command_of_the_launch_on_one_line(once: Demo) -> None:
    assert any(COMMAND in line for line in _checkpoint(once).splitlines())


def test_checkpoint_says_what_loads_and_for_how_long_still(once: Demo) -> None:
    launch = re.search(LAUNCHED, once.out)[1]
    lines = [line for line in _checkpoint(once).splitlines() if launch in line]
    assert any("loading weights" in line.lower() and re.search(r"\b\d+ s\b|\d min", line) for line in lines), lines


def test_what_is_happening_is_told_with_times(once: Demo) -> None:
    out = once.out
    for told in ("Started a daemon at http://127.0.0.1:", 'Imported session S1, "EAGLE-3 for Kimi-K2.5 INT4"'):
        assert re.search(rf"^\d\d:\d\d:\d\d  {re.escape(told)}", out, re.MULTILINE)
    assert re.search(rf"^\d\d:\d\d:\d\d  {LAUNCHED}", out, re.MULTILINE)
    assert re.search(r"^\d\d:\d\d:\d\d  Sitrep wrote checkpoint C1 \(idle\)", out, re.MULTILINE)


@pytest.mark.slow
def test_json_is_the_checkpoint_alone(run: Run) -> None:
    demo = run("--once", "--json", replay_s=20)
    assert demo.wait() == 0, demo.err
    assert json.loads(demo.out)["sections"]
    assert re.search(LAUNCHED, demo.err)


@pytest.mark.slow
def test_endless_goes_on_to_ready_until_ctrl_c(run: Run) -> None:
    demo = run(replay_s=12)
    link = demo.wait_for(LINK)
    assert _status(link[0]) == 303
    demo.wait_for(r"L\d+ is ready\.")
    demo.wait_for(r"Sitrep wrote checkpoint C2")
    store = re.search(r"export SITREP_DATA_DIR=(\S+)", demo.out)[1]
    assert (Path(store) / "sitrep.sock").is_socket()
    assert demo.process.poll() is None

    assert demo.end() == 0
    assert demo.left() == []
    assert not listens(int(link[1]))
    assert demo.err == ""


def _status(url: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
    try:
        connection.request("GET", urlsplit(url).path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["This is a demo", "Launched L"])
def test_sigterm_in_the_middle_leaves_nothing(run: Run, moment: str) -> None:
    demo = run()
    demo.wait_for(moment)
    assert demo.end(signal.SIGTERM) == 128 + signal.SIGTERM
    assert demo.left() == []


@pytest.mark.slow
def test_killed_demo_leaves_nothing_for_long(run: Run) -> None:
    demo = run()
    demo.wait_for("Launched L")
    assert demo.child("sitrepd.demo.replay").is_running()
    assert demo.end(signal.SIGKILL) == -signal.SIGKILL
    wait_until(lambda: not demo.left())


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["sitrepd.demo.keeper", "sitrepd.cli serve"])
def test_death_of_a_part_ends_the_whole(run: Run, victim: str) -> None:
    demo = run()
    demo.wait_for("Launched L")
    demo.child(victim).kill()
    assert demo.wait() == 1
    assert "daemon" in demo.err
    assert demo.left() == []


@pytest.mark.slow
def test_reader_that_goes_away_ends_it(run: Run) -> None:
    demo = run(closed_after="Started a daemon")
    assert demo.wait() == 0
    assert demo.err == ""
    assert demo.left() == []


def test_a_store_of_ones_own_is_refused(run: Run) -> None:
    demo = run("--data-dir", "/nowhere")
    assert demo.wait() == 1
    assert "leave out --data-dir" in demo.err
