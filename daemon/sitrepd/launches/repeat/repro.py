"""A bash script that sets up and runs a launch again, on its own machine or on another."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sitrepd import redact
from sitrepd.clock import iso
from sitrepd.launches.repeat.around import needed, references
from sitrepd.launches.repeat.compare import durations
from sitrepd.launches.repeat.sides import Side
from sitrepd.reporting import command_line

# Of the caller's surroundings, what a server or its kernels look at.
_MATTERS = re.compile(
    r"(?:CUDA|NVIDIA|NCCL|GLOO|UCX|NVSHMEM|MC|SGLANG|SGL|VLLM|HF|HUGGINGFACE|TRANSFORMERS|TORCH|TORCHINDUCTOR|PYTORCH"
    r"|TRITON|FLASHINFER|DEEPGEMM|DG|TILELANG|OMP|MKL|OPENBLAS|TOKENIZERS|ROCM|HIP|HSA|RAY|KMP|NUMA|LLAMA|GGML)_\w+"
    r"|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|PYTHONHASHSEED|VIRTUAL_ENV|CONDA_PREFIX|CC|CXX|TMPDIR|TZ"
)
_FIRST = ("torch", "sglang", "sgl-kernel", "sglang-kernel", "flashinfer-python", "vllm", "transformers", "triton")
_PIN = re.compile(r"[\w.!-]+")


def script(side: Side, benchmark: Any = None, benchmark_id: str | None = None) -> str:
    """The script; secrets are references that must be set when it is run."""
    parts = [
        ["#!/usr/bin/env bash", *_comment(_head(side, benchmark, benchmark_id))],
        ["set -e"],
        list(_secrets(side)),
        list(_install(side)),
        list(_folder(side)),
        list(_environment(side)),
        list(_paths(side)),
        list(_command(side)),
        list(_benchmark(benchmark, benchmark_id)),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def matters(name: str) -> bool:
    """Whether a variable of the surroundings may change how a server runs."""
    return bool(_MATTERS.fullmatch(name))


def importance(package: str) -> tuple[int, str]:
    """Sorts packages: what serving depends on first."""
    return (_FIRST.index(package) if package in _FIRST else len(_FIRST), package)


def _comment(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        for one in line.splitlines() or [""]:
            yield f"# {one}".rstrip()


def _head(side: Side, benchmark: Any, benchmark_id: str | None) -> Iterator[str]:
    row = side.row
    what = f"{side.id}{f' ({row.name})' if row.name else ''}"
    about = f", for {benchmark_id}{f' ({benchmark.name})' if benchmark.name else ''}" if benchmark_id else ""
    yield f"Runs {what} again{about}, as Sitrep recorded it."
    if row.provenance != "observed":
        yield f"Recorded: {row.provenance}{f', imported from {row.imported_from}' if row.imported_from else ''}."
    yield f"Started:  {iso(row.started_at or row.at)}{f', {row.state}' if row.state else ''}"
    ready = durations(side).get("ready")
    if ready is not None:
        yield f"Ready:    after {ready} s"
    if row.failure:
        yield f"Failed:   {row.failure}"
    if side.host is not None:
        gpus = [str(gpu.get("name")) for gpu in side.host.gpus or ()]
        counted = ", ".join(f"{gpus.count(name)} x {name}" for name in dict.fromkeys(gpus))
        yield f"Host:     {side.host.name}{f', {counted}' if counted else ''}"
    yield from _stack_head(side.stack)


def _stack_head(stack: Any) -> Iterator[str]:
    if stack is None:
        yield "Stack:    not recorded"
        return
    versions = {"Python": stack.python, "CUDA": stack.cuda, "driver": stack.driver, "system": stack.os}
    yield "Stack:    " + ", ".join(f"{name} {value}" for name, value in versions.items() if value)
    for tree in stack.git or ():
        dirty = ", with changes beyond it" if tree.get("dirty") else ""
        yield f"Tree:     {tree.get('path')} at {tree.get('commit') or 'no commit'}{dirty}"
    for diff in stack.diffs or ():
        yield f"Changes:  {diff['path']}, sha256 {diff.get('sha256')} (`sitrep show K{stack.id}` has them)"
        yield from (f"  {line}" for line in (diff.get("summary") or "").splitlines())
        if diff.get("untracked"):
            yield f"  not known to git: {', '.join(diff['untracked'])}"


def _secrets(side: Side) -> Iterator[str]:
    """A loop, since a line such as `NAME: …` would itself be taken for a secret."""
    names = sorted(needed(side.row, side.around))
    if names:
        yield "# Secrets are not recorded: set these before."
        yield f"for name in {' '.join(names)}; do"
        yield '  [ -n "${!name}" ] || { echo "$name is not set" >&2; exit 1; }'
        yield "done"


def _install(side: Side) -> Iterator[str]:
    packages: Mapping[str, str] = (side.stack.packages if side.stack is not None else None) or {}
    if not packages:
        yield "# The versions of its packages were not recorded."
        return
    names = sorted(packages, key=importance)
    pins = [f"{name}=={packages[name]}" for name in names if _PIN.fullmatch(name)]
    yield "# The versions that it ran on; uncomment to install them."
    lines = [pins[at : at + 4] for at in range(0, len(pins), 4)]
    yield "# python -m pip install \\"
    for place, line in enumerate(lines):
        end = " \\" if place < len(lines) - 1 else ""
        yield f"#   {' '.join(map(shlex.quote, line))}{end}"


def _folder(side: Side) -> Iterator[str]:
    if not side.row.cwd:
        yield "# The folder that it was started in was not recorded."
        return
    folder = shlex.quote(side.row.cwd)
    yield f"cd {folder} || {{ echo {shlex.quote(f'no folder {side.row.cwd}, where it was started')} >&2; exit 1; }}"


def _environment(side: Side) -> Iterator[str]:
    if side.around is None:
        yield "# The environment that it was started from was not recorded, only what was set for it."
    surroundings = side.around.env if side.around else {}
    told = side.row.env or {}
    for name, value in sorted(surroundings.items()):
        if name in told or name in side.assigned or not matters(name):
            continue
        yield _export(name, value)
    if side.row.command:
        # With words it stands before the command.
        yield from (_export(name, value) for name, value in sorted(told.items()))


def _export(name: str, value: str) -> str:
    if value == f"${{{name}}}":
        return f'export {name}="${{{name}:-}}"  # a secret, not recorded'
    return f"export {name}={shlex.quote(value)}"


def _paths(side: Side) -> Iterator[str]:
    """Folders that the command names; what is no path is a name that the engine looks up elsewhere."""
    models = (("model", side.facts.model_path or side.row.model), ("draft model", side.facts.draft_model_path))
    for what, path in models:
        if path and path.startswith(("/", "./", "../", "~/")) and not references(path):
            said = shlex.quote(f"the {what} {path} is not here")
            yield f"[ -e {_home(path)} ] || {{ echo {said} >&2; exit 1; }}"


def _home(path: str) -> str:
    return f'"$HOME"/{shlex.quote(path[2:])}' if path.startswith("~/") else shlex.quote(path)


def _command(side: Side) -> Iterator[str]:
    row = side.row
    line = row.command or command_line(None, row.argv, row.env)
    if line is None:
        yield "# Its command was not recorded, so nothing is started here."
        yield "exit 1"
        return
    if side.around and side.around.umask is not None:
        yield f"umask {side.around.umask:04o}"
    if side.around and side.around.nice:
        yield f"renice -n {side.around.nice} -p $$ > /dev/null"
    if side.around and _is_narrow(side.around.affinity, side.host):
        numbers = ",".join(map(str, side.around.affinity or ()))
        yield f"taskset -cp {numbers} $$ > /dev/null"
    yield "# The command, as it was given."
    yield "set +e"
    yield line


def _is_narrow(affinity: Sequence[int] | None, host: Any) -> bool:
    """Whether it might not use all processors of its machine."""
    count = getattr(host, "cpu_count", None)
    return bool(affinity) and count is not None and len(affinity or ()) < count


def _benchmark(benchmark: Any, benchmark_id: str | None) -> Iterator[str]:
    if benchmark_id is None:
        return
    yield f"# The benchmark {benchmark_id}, once the server is ready."
    command = _benchmark_command(benchmark)
    if command:
        yield from (f"# {line}" for line in command.splitlines())
    else:
        yield "# Its command was not recorded. Its workload:"
        for name, value in sorted((benchmark.workload or {}).items()):
            yield f"#   {name} = {value}"
    if benchmark.tool:
        yield f"# Measured by {benchmark.tool}."


def _benchmark_command(benchmark: Any) -> str | None:
    for place in (benchmark.workload or {}, benchmark.config or {}):
        for name in ("command", "argv", "cmd"):
            told = place.get(name)
            if isinstance(told, str):
                return redact.redact_command(told)
            if isinstance(told, list):
                return command_line(None, list(map(str, told)), None)
    return getattr(benchmark, "command", None)
