"""A server that counts as an engine does, and a benchmark of three lines, as processes of their own."""

from __future__ import annotations

import sys
from pathlib import Path

SERVER = """
import http.server, sys
answered = 0
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"ok"
        if self.path == "/metrics":
            body = (
                f'sglang:generation_tokens_total{{is_streaming="true"}} {101 * answered}.0\\n'
                f'sglang:generation_tokens_total{{is_streaming="false"}} 7.0\\n'
                f'sglang:prompt_tokens_total{{model="m"}} {50 * answered}.0\\n'
                f'sglang:num_requests_total{{model="m"}} {answered}.0\\n'
                f'sglang:spec_verify_calls_total{{model="m"}} {40 * answered}.0\\n'
                f'sglang:cached_tokens_total{{cache_source="device"}} {10 * answered}.0\\n'
            ).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(body)
    def do_POST(self):
        global answered
        answered += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
    def log_message(self, *told): pass
print("The server is fired up and ready to roll!", flush=True)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
CLIENT = """
import json, os, sys, time, urllib.request
url, output, seconds, token = sys.argv[1], sys.argv[2], float(sys.argv[3]), os.environ.get("BENCH_TOKEN")
print(" 50%|#####     | 1/2 [00:00<00:00]", flush=True)
urllib.request.urlopen(urllib.request.Request(url + "/generate", b"{}"))
urllib.request.urlopen(urllib.request.Request(url + "/generate", b"{}"))
while seconds < 0 and not os.path.exists(output + ".go"): time.sleep(0.02)
print("100%|##########| 2/2 [00:01<00:00] token " + str(token), flush=True)
if seconds == 3: sys.exit("the client gave up")
json.dump({"stats": {"tps": 94.5, "ttft_s": 0.25}, "api_key": token, "done": 1}, open(output, "w"))
"""
MAPPING = {"metrics": {"output_throughput": "stats.tps", "median_ttft_ms": "stats.ttft_s*1000", "completed": "done"}}


def write(folder: Path) -> tuple[Path, Path]:
    """The files of the server and of the client."""
    server, client = folder / "server.py", folder / "client.py"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    return server, client


def server_words(server: Path, port: int) -> list[str]:
    return [sys.executable, str(server), str(port)]


def client_words(client: Path, seconds: float = 0) -> list[str]:
    """`seconds` below 0: until a file appears beside its output; 3: it fails."""
    return [sys.executable, str(client), "{base_url}", "{output}", str(seconds)]
