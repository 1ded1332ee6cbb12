"""Run by the interpreter of a launch: the benchmark client in Rust that comes with SGLang, without SGLang around it.

Exit status 3 where the wheel has none. Importing `sglang` would import PyTorch first, which takes seconds.
"""

import glob
import os
import sys
from importlib import machinery, util

_NAME = "sglang.srt.rust_extensions._bench"


def main() -> None:
    spec = util.find_spec("sglang")
    places = list(spec.submodule_search_locations or []) if spec else []
    suffixes = tuple(machinery.EXTENSION_SUFFIXES)
    found = [
        path
        for place in places
        for path in sorted(glob.glob(os.path.join(place, "srt", "rust_extensions", "_bench*")))
        if path.endswith(suffixes)
    ]
    if not found:
        sys.stderr.write("This SGLang has no benchmark client in Rust (it has one from 0.5.20 or so on).\n")
        sys.exit(3)
    loaded = util.spec_from_file_location(_NAME, found[0])
    assert loaded is not None
    assert loaded.loader is not None
    module = util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    module.run_argv(["sglang-bench", *sys.argv[1:]])


if __name__ == "__main__":
    main()
