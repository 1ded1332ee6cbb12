"""Run by the interpreter of a launch, any Python from 3.8 on: the options of its SGLang's own parser, without torch."""

from __future__ import annotations

import os
import sys

# A json.py in the working directory or on PYTHONPATH must not be imported in place of the library's.
_SEARCH = sys.path[1:] if sys.path[:1] == [""] else list(sys.path)
_ADDED = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if __name__ == "__main__":
    sys.path[:] = [entry for entry in _SEARCH if entry not in _ADDED]

import argparse  # noqa: E402
import hashlib  # noqa: E402
import importlib  # noqa: E402
import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402
import json  # noqa: E402
import signal  # noqa: E402
import types  # noqa: E402
from importlib import metadata, util  # noqa: E402
from typing import Any  # noqa: E402

MARK = "sitrep-flags:"
# What a server needs to run, but its parser only to name types and to ask for the hardware.
_HEAVY = (
    *("torch", "torchvision", "torchaudio", "torchao", "triton", "transformers", "tokenizers", "huggingface_hub"),
    *("sgl_kernel", "flashinfer", "xgrammar", "llguidance", "outlines", "deep_gemm", "pandas", "scipy", "datasets"),
    *("zmq", "uvicorn", "fastapi", "starlette", "aiohttp", "requests", "PIL", "IPython", "soundfile", "openai", "cv2"),
    *("compressed_tensors", "gguf", "tvm_ffi", "cutlass", "quack", "mooncake", "ray", "modelscope", "numba", "kernels"),
)
_OTHER_DEVICES = ("npu", "hpu")


class Nothing:
    """Stands for anything of a package that is left out: it can be called, derived from, indexed and asked."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __init_subclass__(cls, **__: Any) -> None: ...

    def __call__(self, *given: Any, **__: Any) -> Any:
        decorated = len(given) == 1 and isinstance(given[0], (type, types.FunctionType))
        return given[0] if decorated else self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return (Nothing,)

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __getitem__(self, _: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return other

    __ror__ = __or__

    def __lt__(self, _: Any) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __hash__(self) -> int:
        return 0


class Empty(types.ModuleType):
    """A package that is left out."""

    __version__ = "0.0.0"
    __path__: Any = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _OTHER_DEVICES:
            raise AttributeError(name)
        return Nothing()


class LeftOut(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the heavy packages, as empty ones."""

    def find_spec(self, name: str, *_: Any) -> Any:
        if name.partition(".")[0] not in _HEAVY:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return Empty(spec.name)

    def exec_module(self, _: Any) -> None: ...


def bare_package(name: str, folder: str) -> None:
    """A package whose own __init__.py is not run."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    sys.modules[name] = module


def options(parser: argparse.ArgumentParser) -> list[dict[str, Any]]:
    return [
        {
            "opts": list(action.option_strings),
            "dest": action.dest,
            "nargs": action.nargs if isinstance(action.nargs, (int, str)) else None,
            "type": getattr(action.type, "__name__", None) if action.type else None,
            "choices": choices(action.choices),
            "help": str(action.help or "")[:400],
        }
        for action in parser._actions
    ]


def choices(told: Any) -> list[Any] | None:
    if told is None or isinstance(told, (Nothing, range)):
        return None
    found = list(told)
    return found if found and all(isinstance(one, (str, int, float)) for one in found) else None


def read_parser() -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    return options(parser)


def without_torch(folder: str) -> list[dict[str, Any]]:
    finder = LeftOut()
    sys.meta_path.insert(0, finder)
    bare_package("sglang", folder)
    bare_package("sglang.srt", os.path.join(folder, "srt"))
    try:
        return read_parser()
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in (*_HEAVY, "sglang")]:
            del sys.modules[name]


def version() -> str | None:
    try:
        return metadata.version("sglang")
    except Exception:
        return None


def identity(folder: str) -> str:
    """Another for every version, place and edit of the files that make the parser."""
    srt = os.path.join(folder, "srt")
    seen = [folder, str(version())]
    for name in ("server_args.py", "arg_groups", os.path.join("arg_groups", "fields")):
        try:
            told = os.stat(os.path.join(srt, name))
            seen.append(f"{told.st_mtime_ns} {told.st_size}")
        except OSError:
            continue
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:20]


def main() -> None:
    asked = json.loads(sys.argv[1])
    signal.alarm(asked["limit_s"])  # whoever asks may be gone by then
    sys.path[:] = ([asked["first_path"]] if asked["first_path"] else []) + _SEARCH
    spec = util.find_spec("sglang")
    places = list(spec.submodule_search_locations or []) if spec else []
    if not places:
        say({"found": False})
        return
    key = identity(places[0])
    answer = {"found": True, "version": version(), "key": key, "folder": places[0]}
    if key in asked["known"]:
        say(answer)
        return
    try:
        say({**answer, "how": "without torch", "options": without_torch(places[0])})
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        why = f"{type(error).__name__}: {error}"
        say({**answer, "how": "imported", "why": why[:300], "options": read_parser()})


def say(answer: dict[str, Any]) -> None:
    sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
