"""`python -m tests.fidelity [--json]`: scores by budget and type; exit status 1 where a pinned type is below 100 %."""

from __future__ import annotations

import argparse
import itertools
import os
import sys

from tests.fidelity import measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="sessions of each size (5)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first seed (1)")
    parser.add_argument("--messages", type=int, default=5000, metavar="N", help="messages of each session (5000)")
    parser.add_argument("--no-rounds", action="store_true", help="canaries alone")
    told = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("SITREP_")]:
        del os.environ[name]
    seeds = range(told.first, told.first + told.seeds)
    lines = itertools.chain(
        measure.canaries(seeds, told.messages), () if told.no_rounds else measure.after_rounds(seeds)
    )
    good = True
    for line in lines:
        sys.stdout.write(f"{line.json() if told.json else line}\n")
        sys.stdout.flush()
        good = good and line.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
