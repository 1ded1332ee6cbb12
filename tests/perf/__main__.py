"""`python -m tests.perf [--json] [NAME…]`: run the benchmarks, or those that are named."""

from __future__ import annotations

import argparse
import sys

from tests.perf import (  # noqa: F401
    backfill,
    daemon,
    discovery,
    eta,
    hooks,
    ingest,
    latest,
    logs,
    pure,
    redaction,
    render,
    sampler,
    search,
    series,
)  # fmt: skip
from tests.perf.measure import known


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.perf", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(sorted(known())))
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    told = parser.parse_args()
    unknown = [name for name in told.names if name not in known()]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(sorted(known()))}")
    wanted = dict.fromkeys(known()[name] for name in told.names or sorted(known()))
    for run in wanted:
        for figure in run():
            print(figure.line() if told.json else figure, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
