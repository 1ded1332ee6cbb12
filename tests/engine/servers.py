"""Starts of the real SGLang through the command line, and what is asked of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tests.cli.running import Done, Sitrep
from tests.daemons import Daemon
from tests.engine.models import VOCABULARY
from tests.helpers import lives, wait_until

# The extension alone: the module around it would import PyTorch.
_CLIENT = """
import importlib.util, pathlib, sys, sysconfig
(path,) = pathlib.Path(sysconfig.get_paths()["purelib"], "sglang/srt/rust_extensions").glob("_bench.*.so")
spec = importlib.util.spec_from_file_location("sglang.srt.rust_extensions._bench", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
module.run_argv(["sglang-bench", *sys.argv[1:]])
"""
ENDED = ("failed", "exited", "lost")
# Imports of PyTorch and SGLang in three processes: 20 s where nothing else runs.
START_S = 240


@dataclass
class Room:
    """One daemon, its command line, and a folder for models and logs."""

    daemon: Daemon
    sitrep: Sitrep
    folder: Path
    python: str
    started: list[int] = field(default_factory=list)

    def command(self, model: Path | str, port: int, *flags: str) -> list[str]:
        """Without a tokenizer, kernels for GPUs, or graphs."""
        return [
            self.python, "-m", "sglang.launch_server", "--model-path", str(model), "--device", "cpu",
            "--skip-tokenizer-init", "--attention-backend", "torch_native", "--grammar-backend", "none",
            "--mem-fraction-static", "0.3", "--max-total-tokens", "8192", "--sleep-on-idle", "--host", "127.0.0.1", "--port", str(port),
            *flags,
        ]  # fmt: skip

    def launch(self, *words: str) -> dict[str, Any]:
        launch: dict[str, Any] = self.sitrep("launch", "--json", *words).json
        self.started.append(launch["pid"])
        return launch

    def watch(self, launch: str) -> tuple[int, list[dict[str, Any]]]:
        """The exit status of `sitrep watch`, and each moment that it showed."""
        watching = self.sitrep.start("watch", launch, "--json")
        out, err = watching.communicate(timeout=START_S)
        assert "Traceback" not in err, err
        return watching.returncode, [json.loads(line) for line in out.splitlines()]

    def show(self, launch: str) -> dict[str, Any]:
        fact: dict[str, Any] = self.sitrep("show", launch, "--json").json
        return fact

    def ended(self, launch: str) -> dict[str, Any]:
        wait_until(lambda: self.show(launch)["state"] in ENDED, START_S, 0.2)
        return self.show(launch)

    def categories(self, launch: str) -> list[str]:
        """As which failure it was diagnosed; told once."""
        events = self.daemon.client.get("/api/v1/events", params={"limit": 1000}).json()
        return [one["data"]["category"] for one in events if one["subject"] == launch and "category" in one["data"]]

    def diagnosed(self, launch: str) -> str:
        """The category, a moment after the end."""
        wait_until(lambda: self.categories(launch), 30, 0.1)
        (category,) = self.categories(launch)
        return category

    def finding(self, launch: str) -> dict[str, Any]:
        """The one finding that says why a launch failed."""
        findings = self.daemon.client.get("/api/v1/findings", params={"limit": 200}).json()["data"]
        (found,) = [one for one in findings if launch in one["evidence"]]
        return dict(found)

    def benchmark(self, port: int, output: Path) -> Done:
        """The client in Rust that comes with SGLang, with random token ids; its table is printed, a line is appended."""
        done = subprocess.run(
            [
                self.python, "-c", _CLIENT, "--backend", "sglang", "--base-url",
                f"http://127.0.0.1:{port}", "--dataset-name", "random-ids", "--tokenize-prompt", "--vocab-size",
                str(VOCABULARY), "--num-prompts", "12", "--random-input-len", "16", "--random-output-len", "96",
                "--random-range-ratio", "1", "--max-concurrency", "4", "--output-file", str(output),
            ],
            capture_output=True, text=True, timeout=180, cwd=self.folder,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    def end(self) -> None:
        """End what the tests have started themselves and what is left of it, should one have failed."""
        for pid in self.started:
            for process in tree(pid):
                process.kill()


def generate(port: int, tokens: int) -> list[int]:
    """A completion of so many tokens."""
    asked = {"input_ids": [5, 6, 7, 8], "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/generate", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        ids: list[int] = json.load(answer)["output_ids"]
    return ids


def tree(pid: int) -> list[psutil.Process]:
    """The process and what descends from it, as far as they live."""
    try:
        main = psutil.Process(pid)
        return [one for one in (main, *main.children(recursive=True)) if lives(one.pid)]
    except psutil.NoSuchProcess:
        return []


def rank(pid: int) -> psutil.Process:
    """The process that runs the model; SGLang gives it that title."""
    (found,) = [one for one in tree(pid) if any("sglang::scheduler" in word for word in one.cmdline())]
    return found


def ranks(pid: int) -> dict[str, int]:
    """The pids of all processes that run the model, by the titles that SGLang gives them."""
    found = {one.cmdline()[0].strip(): one.pid for one in tree(pid)}
    return {title: number for title, number in found.items() if title.startswith("sglang::scheduler")}


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
