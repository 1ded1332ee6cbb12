"""Which environment a Python that runs belongs to, by the libraries that it has loaded."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path

_LIBRARY = re.compile(r" (/\S.*)/lib(?:64)?/python3[.\d]*t?/(?:site|dist)-packages/")


def environment_of(folder: Path, program: str) -> str:
    """The interpreter of that environment; `program` itself where its libraries, in /proc/PID/maps, do not tell.

    A virtual environment's `bin/python` is a link, which the kernel has followed before it tells of the program.
    """
    try:
        maps = (folder / "maps").read_text(errors="replace")
    except OSError:
        return program
    for prefix, _ in Counter(_LIBRARY.findall(maps)).most_common():
        python = os.path.join(prefix, "bin", "python")
        if os.path.realpath(python) == os.path.realpath(program) and os.access(python, os.X_OK):
            return python
    return program
