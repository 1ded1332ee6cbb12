"""The tools that measure: how each is called for a server, and where it writes what it has measured."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sitrepd.benchmarks.running import rust_client
from sitrepd.benchmarks.running.flags import has, options_in, set_value, value_of, with_default
from sitrepd.benchmarks.running.presets import Preset
from sitrepd.benchmarks.running.target import Target
from sitrepd.errors import InvalidFact

_WARM_MOST = 64
_WARM_ELSE = 8
_WARM_ROUNDS = 4
KEEP_THE_CACHE = ("vllm", "guidellm", "aiperf")
"""Tools that would find the prompts of their warm-up, or of the repeat before, in the server's prefix cache."""
DIARY = "tool.log"
"""What a tool writes of itself beside what it prints, in the folder of its run."""
_OWN_PROMPTS = 1000
"""What `bench_serving` sends where nothing is said."""


_MODULES = {"sglang": ("-m", "sglang.bench_serving"), "sglang-rust": (rust_client.__file__,)}
_VERBS = {"vllm": ("bench", "serve"), "guidellm": ("run",), "aiperf": ("profile",)}


@dataclass(frozen=True)
class Call:
    """One run of a tool: its words, what is set in its environment, and the file (or folder) that it will write.

    `workload` is what is asked of the server and does not stand in the file that the tool writes.
    """

    argv: tuple[str, ...]
    output: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    requests: int | None = None
    workload: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wanted:
    """What is to be run; `help` is what the tool says of its own options, None where that was not to be had."""

    target: Target
    preset: Preset
    flags: Sequence[str]
    folder: Path
    warming: bool = False
    repeated: bool = False
    own_warmup: bool = True
    help: str | None = None

    def knows(self, option: str) -> bool:
        """Whether the tool surely has it."""
        return self.help is not None and option in options_in(self.help)


def program(tool: str, target: Target) -> list[str]:
    """The words that start a tool; raises InvalidFact where it is not installed."""
    if tool in ("sglang", "sglang-rust"):
        return [*_interpreter(tool, target), *_MODULES[tool]]
    return [_named(target) or _installed(tool, target), *_VERBS[tool]]


def _interpreter(tool: str, target: Target) -> list[str]:
    named = _named(target)
    if named is not None:
        return [named]
    if target.python is None:
        why = target.why_no_python or "it is not known which Python it runs on"
        raise InvalidFact(
            f"{target.launch} cannot be measured with {tool}: {why}. Name one that has SGLang with --program."
        )
    return [target.python, *target.options]


def _named(target: Target) -> str | None:
    """The file that the one who asks has named; raises InvalidFact where it cannot be started."""
    if target.program is None:
        return None
    if not (os.path.isfile(target.program) and os.access(target.program, os.X_OK)):
        raise InvalidFact(f"program: {target.program} is no file on this host that can be started.")
    return target.program


def _installed(name: str, target: Target) -> str:
    beside = Path(target.python).parent / name if target.python else None
    if beside is not None and os.access(beside, os.X_OK):
        return str(beside)
    paths = [path for path in (target.env.get("PATH"), target.path, os.environ.get("PATH")) if path]
    found = shutil.which(name, path=os.pathsep.join(paths))
    if found is None:
        raise InvalidFact(
            f"{name} is not installed beside {target.python or 'the server'} nor on the PATH: `pip install {name}`, "
            "name its file with --program, or measure with another --tool."
        )
    return found


def help_words(tool: str, target: Target) -> list[str] | None:
    """The command that prints all of a tool's options; None for one that is not asked."""
    return None if tool == "command" else [*program(tool, target), "--help=all" if tool == "vllm" else "--help"]


def call(tool: str, wanted: Wanted) -> Call:
    """One run of the tool as it is wanted."""
    return _CALLS[tool](wanted)


def _sglang(wanted: Wanted) -> Call:
    output = wanted.folder / "result.jsonl"
    target = wanted.target
    words = _with_workload(wanted)
    words = with_default(words, "--backend", "sglang")
    words = with_default(words, "--base-url", target.url)
    if target.model:
        words = with_default(words, "--model", target.model)
    if target.served_name and wanted.knows("--served-model-name"):
        words = with_default(words, "--served-model-name", target.served_name)
    if wanted.own_warmup and wanted.knows("--warmup-requests"):
        words = with_default(words, "--warmup-requests", "0")
    if wanted.knows("--flush-cache") and (wanted.repeated or wanted.preset.prompts):
        words = with_default(words, "--flush-cache")
    words = set_value(words, "--output-file", str(output))
    return Call((*program("sglang", target), *words), output, target.surroundings(), _requests(words, _OWN_PROMPTS))


def _rust(wanted: Wanted) -> Call:
    found = _sglang(wanted)
    at = len(program("sglang", wanted.target))
    return Call((*program("sglang-rust", wanted.target), *found.argv[at:]), found.output, found.env, found.requests)


def _with_workload(wanted: Wanted) -> list[str]:
    """A preset in the flags of `bench_serving`; what the flags say comes first."""
    preset, words = wanted.preset, [*wanted.preset.flags, *wanted.flags]
    if preset.prompts:
        words = with_default(words, "--num-prompts", str(preset.prompts))
    if preset.input_len or preset.output_len:
        words = with_default(words, "--dataset-name", _data_set(wanted.help))
        words = with_default(words, "--random-range-ratio", "1")
    if preset.input_len:
        words = with_default(words, "--random-input-len", str(preset.input_len))
    if preset.output_len:
        words = with_default(words, "--random-output-len", str(preset.output_len))
    if preset.concurrency:
        words = with_default(words, "--max-concurrency", str(preset.concurrency))
    if preset.request_rate:
        words = with_default(words, "--request-rate", f"{preset.request_rate:g}")
    return set_value(words, "--num-prompts", str(_few(words))) if wanted.warming else words


def _data_set(help_text: str | None) -> str:
    """Random tokens: `random` would download the conversations that it cuts its prompts from."""
    return "random" if help_text is not None and "random-ids" not in help_text else "random-ids"


def _few(words: Sequence[str]) -> int:
    at_a_time = _number(value_of(words, "--max-concurrency"))
    return _warming(_requests(words, _OWN_PROMPTS), at_a_time)


def _warming(requests: int | None, at_a_time: int | None) -> int:
    """Some rounds of as many as run at a time, of which one ends as another begins: what the first round alone does not
    meet, kernels for the sizes in between are made for in the first measured run (16 % slower on an H200)."""
    at_a_time = at_a_time or _WARM_ELSE
    return max(1, min(requests or _OWN_PROMPTS, max(at_a_time, min(_WARM_ROUNDS * at_a_time, _WARM_MOST))))


def _requests(words: Sequence[str], otherwise: int) -> int:
    return _number(value_of(words, "--num-prompts")) or otherwise


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


_VLLM_WORKLOAD = {
    "dataset_name": "--dataset-name", "dataset_path": "--dataset-path", "random_input_len": "--random-input-len",
    "random_output_len": "--random-output-len", "random_range_ratio": "--random-range-ratio",
    "random_prefix_len": "--random-prefix-len", "input_len": "--input-len", "output_len": "--output-len",
    "sharegpt_output_len": "--sharegpt-output-len", "temperature": "--temperature",
}  # fmt: skip
"""What its result leaves out, without which runs of other prompts would read as repeats."""


def _vllm(wanted: Wanted) -> Call:
    output = wanted.folder / "result.json"
    target, preset = wanted.target, wanted.preset
    words = [*preset.flags, *wanted.flags]
    words = with_default(words, "--backend", "openai")
    words = with_default(words, "--base-url", target.url)
    if target.model:
        words = with_default(words, "--model", target.model)
    if target.served_name:
        words = with_default(words, "--served-model-name", target.served_name)
    if preset.input_len or preset.output_len:
        words = with_default(with_default(words, "--dataset-name", "random"), "--ignore-eos")
        words = with_default(words, "--random-input-len", str(preset.input_len or 1024))
        words = with_default(words, "--random-output-len", str(preset.output_len or 128))
    if preset.prompts:
        words = with_default(words, "--num-prompts", str(preset.prompts))
    if preset.concurrency:
        words = with_default(words, "--max-concurrency", str(preset.concurrency))
    if preset.request_rate:
        words = with_default(words, "--request-rate", f"{preset.request_rate:g}")
    if wanted.knows("--percentile-metrics"):
        words = with_default(words, "--percentile-metrics", "ttft,tpot,itl,e2el")
        words = with_default(words, "--metric-percentiles", "90,95,99")
    if wanted.warming:
        words = set_value(words, "--num-prompts", str(_few(words)))
    words = [*words, "--save-result"] if not has(words, "--save-result") else words
    words = set_value(set_value(words, "--result-dir", str(wanted.folder)), "--result-filename", output.name)
    told = {key: found for key, name in _VLLM_WORKLOAD.items() if (found := value_of(words, name)) is not None}
    return Call((*program("vllm", target), *words), output, target.surroundings(), _requests(words, _OWN_PROMPTS), told)


def _guidellm(wanted: Wanted) -> Call:
    """As 0.8 has it: each part is `kind=…` with its own settings."""
    output = wanted.folder / "result.json"
    target, preset = wanted.target, wanted.preset
    words = [*preset.flags, *wanted.flags]
    served = target.served_name or target.model
    backend = ["kind=openai_http", f"target={target.url}", *([f"model={served}"] if served else [])]
    backend += ["request_format=/v1/completions", *([f"api_key={target.api_key}"] if target.api_key else [])]
    words = with_default(words, "--backend", ",".join(backend))
    if target.model:
        words = with_default(words, "--tokenizer", f"kind=huggingface_auto,model={target.model}")
    if preset.input_len or preset.output_len:
        lengths = f"prompt_tokens={preset.input_len or 1024},output_tokens={preset.output_len or 128}"
        words = with_default(words, "--data", f"kind=synthetic_text,{lengths}")
    if preset.concurrency:
        words = with_default(words, "--profile", f"kind=concurrent,streams={preset.concurrency}")
    elif preset.request_rate:
        words = with_default(words, "--profile", f"kind=poisson,rate={preset.request_rate:g}")
    few = _warming(preset.prompts, preset.concurrency)
    if wanted.warming:
        words = set_value(words, "--constraint", f"kind=max_requests,count={few}")
    elif preset.prompts:
        words = with_default(words, "--constraint", f"kind=max_requests,count={preset.prompts}")
    words = [*words, "--output", f"kind=json,path={output}", "--disable-console-interactive"]
    env = {**target.surroundings(), **(_guidellm_diary(wanted.folder) if wanted.warming else {})}
    return Call((*program("guidellm", target), *words), output, env, _most_requests(words))


def _guidellm_diary(folder: Path) -> dict[str, str]:
    """What failed a request it writes nowhere else. Only of the warm-up, since it writes it for each request."""
    return {"GUIDELLM__LOGGING__LOG_FILE": str(folder / DIARY), "GUIDELLM__LOGGING__LOG_FILE_LEVEL": "DEBUG"}


def _most_requests(words: Sequence[str]) -> int | None:
    found = re.search(r"\bkind=max_requests,count=(\d+)", value_of(words, "--constraint") or "")
    return int(found[1]) if found else None


def _aiperf(wanted: Wanted) -> Call:
    output = wanted.folder / "artifacts"
    target, preset = wanted.target, wanted.preset
    words = [*preset.flags, *wanted.flags]
    words = with_default(words, "--url", target.url)
    if target.served_name or target.model:
        words = with_default(words, "--model", target.served_name or target.model)
    if target.model:
        words = with_default(words, "--tokenizer", target.model)
    words = with_default(with_default(words, "--endpoint-type", "completions"), "--streaming")
    if target.api_key:
        words = with_default(words, "--api-key", target.api_key)
    if preset.input_len and not has(words, "--synthetic-input-tokens-mean"):
        words = with_default(words, "--isl", str(preset.input_len))
    if preset.output_len and not has(words, "--output-tokens-mean"):
        words = with_default(words, "--osl", str(preset.output_len))
    if preset.output_len:
        words = with_default(words, "--extra-inputs", "ignore_eos:true")
    if wanted.knows("--use-server-token-count"):
        words = with_default(words, "--use-server-token-count")
    if preset.concurrency:
        words = with_default(words, "--concurrency", str(preset.concurrency))
    if preset.prompts:
        words = with_default(words, "--request-count", str(preset.prompts))
    if wanted.warming:
        words = set_value(words, "--request-count", str(_warming(preset.prompts, preset.concurrency)))
    words = with_default(words, "--ui", "simple")
    words = set_value(words, "--artifact-dir", str(output))
    return Call((*program("aiperf", target), *words), output, target.surroundings(), preset.prompts)


def _command(wanted: Wanted) -> Call:
    target, output = wanted.target, wanted.folder / "result.json"
    values = {
        "base_url": target.url, "host": target.host, "port": str(target.port), "model": target.model or "",
        "output": str(output), "launch": target.launch,
    }  # fmt: skip
    words = tuple(filled(word, values) for word in wanted.flags)
    env = {f"SITREP_{name.upper()}": value for name, value in values.items()}
    return Call(words, output, env)


def filled(word: str, values: Mapping[str, str]) -> str:
    """`{name}` replaced where the name is one of these; other braces stay, as JSON has them."""
    for name, value in values.items():
        word = word.replace("{" + name + "}", value)
    return word


_CALLS: dict[str, Callable[[Wanted], Call]] = {
    "sglang": _sglang, "sglang-rust": _rust, "vllm": _vllm, "guidellm": _guidellm, "aiperf": _aiperf,
    "command": _command,
}  # fmt: skip
