"""Projects that began without Sitrep, made of recorded logs and results."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

from sitrepd.backfill.found import Found, Start
from sitrepd.backfill.run import find

DATA = Path(__file__).parent.parent / "data"
EAGLE = "h200-0.5.16-eagle3-s3"
FLAGS = (
    "--model-path /models/target --host 127.0.0.1 --port 8000 --mem-fraction-static 0.5 --attention-backend triton"
    " --sampling-backend pytorch --grammar-backend none --trust-remote-code --enable-metrics --cuda-graph-max-bs 8"
)
SPECULATIVE = (
    " --speculative-algorithm EAGLE3 --speculative-draft-model-path /models/draft --speculative-num-steps 3"
    " --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"
)


def log(name: str) -> str:
    return (DATA / "logs" / f"{name}.log").read_bytes().decode()


def result(name: str) -> str:
    return (DATA / "bench" / f"{name}.jsonl").read_text()


def without_server(line: str) -> str:
    """A result as SGLang 0.4 wrote it, which says nothing of its server."""
    told = json.loads(line)
    del told["server_info"]
    return json.dumps(told) + "\n"


def write(path: Path, text: str, at: datetime | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="")
    if at is not None:
        os.utime(path, (at.timestamp(), at.timestamp()))
    return path


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def read(folder: Path) -> Found:
    """What is found below, the times of its logs taken as UTC."""
    return find([str(folder)], "UTC")


def only_start(folder: Path) -> Start:
    (start,) = read(folder).starts
    return start


def reasons(found: Found) -> dict[str, str]:
    return {Path(one.path).name: one.reason for one in found.not_understood}
