"""The command of a start, where a script or a shell's trace leaves no doubt which it was."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from sitrepd.backfill.found import Start
from sitrepd.launches.command import CommandError, ShellCommand, flags_text, parse_command
from sitrepd.launches.engines import _flags, engine_for, engine_named
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.redact import redact_argv, redact_command, redact_env

SCRIPT = re.compile(r"\.(?:sh|bash|zsh|slurm|sbatch|cmd|command|txt|md)$|^[\w-]+$", re.IGNORECASE)
MOST_SCRIPT_BYTES = 256 << 10
_SERVER = re.compile(
    rb"sglang\.launch_server|sglang[ \\\n]+serve|vllm[ \\\n]+serve|vllm\.entrypoints\.(?:openai\.)?api_server"
)
_TRACE = re.compile(r"\++ (?P<command>\S.*(?:sglang|vllm).*)")
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?[A-Za-z_]\w*=(?:[^\s;&|]*|\"[^\"]*\"|'[^']*')\s*(?:#.*)?$")
_CD = re.compile(r"\s*cd\s+[^;&|]+\s*$")
_LOOP = re.compile(r"\s*for\s+(?P<name>[A-Za-z_]\w*)\s+in\s+(?P<words>[^;$`*?]+?)\s*(?:;\s*do)?\s*$")
_FENCE = re.compile(r"\s*(?:[$>%] )?")
_USED = re.compile(r"\$\{?([A-Za-z_]\w*|[\d@*#?!])")
_SET = re.compile(r"(?:^|[\s;])(?:export\s+)?([A-Za-z_]\w*)=", re.MULTILINE)
_MOST_COMMANDS = 200

# What a server has where nobody asked for anything else, under all releases; other settings are chosen at the start.
_UNASKED: dict[str, tuple[Any, ...]] = {
    "tp_size": (1,), "dp_size": (1,), "pp_size": (1,), "ep_size": (1,), "nnodes": (1,), "quantization": (None,),
    "context_length": (None,), "speculative_algorithm": (None,), "speculative_num_steps": (None,),
    "max_total_tokens": (None,), "enable_torch_compile": (False,), "disable_radix_cache": (False,),
    "trust_remote_code": (False,), "lora_paths": (None, [], {}), "port": (30000, 8000),
    "host": ("127.0.0.1", "0.0.0.0", None),
    "disable_cuda_graph": (False,), "enable_dp_attention": (False,), "cpu_offload_gb": (0,), "load_format": ("auto",),
    "json_model_override_args": ("{}", None), "is_embedding": (False,), "enable_hierarchical_cache": (False,),
    "enable_metrics": (False,), "served_model_name": (None,), "skip_tokenizer_init": (False,),
}  # fmt: skip
_ALIASES = {
    "model": "model_path", "tensor_parallel_size": "tp_size", "tp": "tp_size", "data_parallel_size": "dp_size",
    "dp": "dp_size", "pipeline_parallel_size": "pp_size", "pp": "pp_size", "expert_parallel_size": "ep_size",
    "ep": "ep_size", "speculative_algo": "speculative_algorithm", "mem_frac": "mem_fraction_static",
    "speculative_draft_model": "speculative_draft_model_path", "max_running_request": "max_running_requests",
}  # fmt: skip


@dataclass(frozen=True)
class Written:
    """A command that starts a server, as a script has it with its variables filled in."""

    path: str
    line: int
    command: ShellCommand
    facts: CommandFacts
    logs: Mapping[str, str | None]
    """Where its output goes, by the folders that it may have been run in; None where several lead to one log."""
    mtime: float

    def to_json(self, log: str) -> dict[str, Any]:
        return _told(list(self.command.argv), self.command.environment, self.logs.get(log))


def traced_command(line: str) -> str | None:
    """The command of a line that `bash -x` writes, if it starts a server."""
    if not line.startswith("+"):
        return None
    found = _TRACE.match(line)
    if found is None:
        return None
    words = _split(found["command"])
    return found["command"] if words and engine_for(words).name != "generic" else None


def is_script(data: bytes) -> bool:
    """Whether it may hold a command that starts a server."""
    return len(data) <= MOST_SCRIPT_BYTES and _SERVER.search(data) is not None


def written_commands(path: str, source: str, mtime: float, roots: Sequence[str]) -> list[Written]:
    """The commands in a script or a note; loops over written words are unrolled, all else must be known."""
    found: list[Written] = []
    folders = _folders(path, roots)
    for number, prelude, line in _lines(source):
        if len(found) >= _MOST_COMMANDS:
            break
        commands = [command for folder in folders if (command := _parsed(prelude, line, folder))]
        if not commands:
            continue
        command = commands[0]
        engine = engine_for(command.argv)
        facts = engine.describe(command.argv, {k: v for k, v in command.environment.items() if v is not None})
        found.append(Written(path, number, command, facts, _logs(commands), mtime))
    return found


def _logs(commands: Sequence[ShellCommand]) -> dict[str, str | None]:
    folders: dict[str, set[str | None]] = {}
    for one in commands:
        for log in (one.log_path, one.stderr_path, one.tee_path):
            if log and log != os.devnull:
                folders.setdefault(os.path.realpath(log), set()).add(one.cwd)
    return {log: next(iter(of)) if len(of) == 1 else None for log, of in folders.items()}


def _folders(path: str, roots: Sequence[str]) -> list[str]:
    """Where a script may have been run: its own folder, and those above it up to the ones that were given."""
    folder = os.path.dirname(os.path.abspath(path))
    found = [folder]
    tops = {os.path.abspath(root) for root in roots}
    while folder not in tops and os.path.dirname(folder) != folder and len(found) < 8:
        folder = os.path.dirname(folder)
        found.append(folder)
    return found


def _lines(source: str) -> Iterator[tuple[int, list[str], str]]:
    """Lines that name a server, with the assignments and changes of folder before them, once a turn of a loop."""
    prelude: list[str] = []
    loops: list[tuple[str, list[str]]] = []
    for number, line in _logical(source):
        text = _FENCE.sub("", line, count=1) if not line.lstrip().startswith("export") else line
        loop = _LOOP.match(text)
        if loop:
            loops.append((loop["name"], _split(loop["words"]) or []))
        elif text.strip() == "done" or text.strip().startswith("done ") or text.strip().startswith("done;"):
            del loops[-1:]
        elif _ASSIGNMENT.match(text) or _CD.match(text):
            prelude.append(text.strip())
        elif _SERVER.search(text.encode()):
            for turn in _turns(loops):
                yield number, [*prelude, *turn], text


def _logical(source: str) -> Iterator[tuple[int, str]]:
    begun, first = "", 0
    for number, line in enumerate(source.splitlines(), 1):
        first = first if begun else number
        if line.rstrip().endswith("\\") and not line.lstrip().startswith("#"):
            begun += line.rstrip()[:-1] + " "
            continue
        whole, begun = begun + line, ""
        if whole.strip() and not whole.lstrip().startswith("#"):
            yield first, whole
    if begun.strip():
        yield first, begun


def _turns(loops: Sequence[tuple[str, list[str]]]) -> Iterator[list[str]]:
    if not loops:
        yield []
        return
    (name, words), *rest = loops
    for word in words:
        for turn in _turns(rest):
            yield [f"{name}={shlex.quote(word)}", *turn]


def _parsed(prelude: Sequence[str], line: str, folder: str) -> ShellCommand | None:
    """None for what is no server, or whose words cannot all be known."""
    source = "\n".join([*prelude, line.strip()])
    if not set(_USED.findall(source)) <= set(_SET.findall(source)):
        return None
    try:
        command = parse_command(source, {}, folder)
    except CommandError:
        return None
    if not command.understood or command.raw_words or engine_for(command.argv).name == "generic":
        return None
    return command


# --- which of them it was ----------------------------------------------------------------------------------------


def attach(starts: Sequence[Start], written: Sequence[Written]) -> None:
    """Give each start its command where it is certain."""
    by_log: dict[str, list[Written]] = {}
    for one in written:
        for log in one.logs:
            by_log.setdefault(log, []).append(one)
    for start in starts:
        if start.command is None and start.traced:
            start.command = _of_trace(start)
        if start.command is None:
            _of_scripts(start, by_log.get(os.path.realpath(start.path), []))


def _of_trace(start: Start) -> dict[str, Any] | None:
    words = _split(start.traced or "")
    facts = engine_named(start.engine).describe(words, {}) if words else None
    if facts is None or (start.settings and not _agrees(facts, start)):
        return None
    start.warnings.append("The command stands in its log, as the shell traced it.")
    return _told(words or [], {}, None)


def _of_scripts(start: Start, written: Sequence[Written]) -> None:
    fitting = [one for one in written if one.facts.engine == start.engine and _fits(one, start)]
    if len({one.command.argv for one in fitting}) != 1:
        return
    chosen = fitting[0]
    start.command = chosen.to_json(os.path.realpath(start.path))
    start.warnings.append(
        f"The command is that of {chosen.path}, line {chosen.line}, which writes this log"
        + (" and agrees with its settings." if start.settings else ".")
    )


def _fits(one: Written, start: Start) -> bool:
    if start.settings:
        return _agrees(one.facts, start)
    return start.alone and one.mtime <= start.last_at.timestamp() + 1


def _agrees(facts: CommandFacts, start: Start) -> bool:
    """Whether the settings that the log shows are those of the command, and nothing in them was asked for elsewhere."""
    if start.engine != "sglang":
        return _agrees_with_asked(facts, start.settings)
    asked = {_ALIASES.get(name, name): value for name, value in facts.flags.items()}
    adjusted = {"speculative_num_draft_tokens"} if any("is adjusted" in one for one in start.warnings) else set()
    both = asked.keys() & start.settings.keys() - adjusted
    if not all(_same(asked[name], start.settings[name]) for name in both):
        return False
    if facts.model_path and start.model and facts.model_path != start.model:
        return False
    return all(
        start.settings[name] in values or name in asked or _follows(name, start)
        for name, values in _UNASKED.items()
        if name in start.settings
    )


def _follows(name: str, start: Start) -> bool:
    """Whether the engine has set it by itself: the model is served under its own name."""
    return name == "served_model_name" and start.settings[name] == start.model


def _agrees_with_asked(facts: CommandFacts, settings: Mapping[str, Any]) -> bool:
    """vLLM prints what was asked for: the same names with the same values."""
    names = {
        "model_tag": "model",
        "tp": "tensor_parallel_size",
        "pp": "pipeline_parallel_size",
        "dp": "data_parallel_size",
    }
    told = {names.get(name, name): value for name, value in settings.items()}
    asked = {names.get(name, name): value for name, value in facts.flags.items()}
    if facts.model_path:
        asked["model"] = facts.model_path
    both = asked.keys() & told.keys()
    return {"model"} <= both and all(_same(asked[name], told[name]) for name in both) and told.keys() <= asked.keys()


def _same(asked: Any, told: Any) -> bool:
    if asked is True or isinstance(told, bool):
        return bool(asked) == told or str(asked).lower() == str(told).lower()
    if isinstance(told, list):
        return [str(item) for item in told] == (
            [str(item) for item in asked] if isinstance(asked, list) else [str(asked)]
        )
    if isinstance(asked, str) and isinstance(told, int | float):
        try:
            return Decimal(asked) == Decimal(str(told))
        except InvalidOperation:
            return False
    return str(asked).lower() == str(told).lower() if isinstance(told, str) else True


def _told(argv: Sequence[str], environment: Mapping[str, str | None], cwd: str | None) -> dict[str, Any]:
    """The command as it is stored, without secrets: a line that can be pasted, its words, what it sets."""
    env = {name: value for name, value in environment.items() if value is not None}
    set_for_it = [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    line = redact_command(" ".join([*set_for_it, flags_text(argv)]))
    return {"command": line, "argv": redact_argv(argv), "env": redact_env(env), "cwd": cwd}


def _split(command: str) -> list[str] | None:
    try:
        return _flags.words_of(shlex.split(command, comments=True))
    except ValueError:
        return None
