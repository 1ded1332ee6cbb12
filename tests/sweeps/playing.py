"""A server that is ready at once, a benchmark that measures it in no time, and sweeps made of the two."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.helpers import free_port

_SERVER = """
import json, os, signal, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
steps = int(flags.get("--steps", 0))
with open(flags["--starts"], "a") as file:
    file.write(json.dumps({"pid": os.getpid(), "steps": steps, "argv": sys.argv[1:], "mode": os.environ.get("MODE")}) + chr(10))
if os.environ.get("MODE") == "break" or steps == 9:
    raise RuntimeError("steps are not possible")
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"steps": steps}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
HTTPServer.allow_reuse_address = True
server = HTTPServer(("127.0.0.1", int(flags["--port"])), Handler)
print("serving", flush=True)
server.serve_forever()
"""
_BENCH = """
import json, pathlib, sys, time, urllib.request
url, output, here = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
steps = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + "/health"))["steps"]
while (here / "hold").exists():
    time.sleep(0.02)
seen = here / ("runs-%d" % steps)
runs = int(seen.read_text()) + 1 if seen.exists() else 1
seen.write_text(str(runs))
value = {0: 88.8, 1: 85.1, 2: 94.0, 3: 90.5}.get(steps, 80.0) + 0.1 * (runs % 3)
told = {"output_throughput": value, "completed": 16, "duration": 1.0, "backend": "sglang", "total_output_tokens": 100,
        "dataset_name": "random-ids", "request_throughput": 1.0, "median_ttft_ms": 10.0 - steps}
pathlib.Path(output).write_text(json.dumps(told) + chr(10))
"""


class Play:
    """Files of one sweep in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / "server.py").write_text(_SERVER)
        (folder / "bench.py").write_text(_BENCH)
        self.hold = folder / "hold"

    def starts(self) -> list[dict[str, Any]]:
        """Each start of the server, in order."""
        path = self.folder / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def template(self) -> dict[str, Any]:
        return {
            "argv": [sys.executable, "-I", "-S", str(self.folder / "server.py"), "--port", str(self.port), "--starts",
                     str(self.folder / "starts")],
            "port": self.port, "ready_url": f"http://127.0.0.1:{self.port}/health", "cwd": str(self.folder),
        }  # fmt: skip

    @property
    def benchmark(self) -> dict[str, Any]:
        words = [sys.executable, "-I", "-S", str(self.folder / "bench.py"), "{base_url}", "{output}", str(self.folder)]
        return {"tool": "command", "flags": words, "repeat": 2}

    def sweep(self, **more: Any) -> dict[str, Any]:
        told = {
            "name": "steps", "template": self.template, "parameters": {"steps": ["absent", 1, 2]},
            "baseline": {"steps": "absent"}, "benchmarks": [self.benchmark],
        }  # fmt: skip
        return told | more

    def toml(self, path: Path, **more: Any) -> Path:
        """The same as a file."""
        told = self.sweep(**more)
        lines = [f"name = {json.dumps(told['name'])}", f"baseline = {_inline(told['baseline'])}"]
        lines += [f"{name} = {json.dumps(value)}" for name, value in told.items() if isinstance(value, bool | int)]
        lines += ["[template]", *(f"{name} = {json.dumps(value)}" for name, value in told["template"].items())]
        lines += ["[parameters]", *(f"{name} = {json.dumps(value)}" for name, value in told["parameters"].items())]
        for one in told["benchmarks"]:
            lines += ["[[benchmarks]]", *(f"{name} = {json.dumps(value)}" for name, value in one.items())]
        path.write_text("\n".join(lines) + "\n")
        return path


def _inline(told: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(value)}" for name, value in told.items()) + " }"
