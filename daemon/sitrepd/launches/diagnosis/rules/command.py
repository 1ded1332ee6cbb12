"""The command line, and what the program needs to be there."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_RENAMED = {
    "--cuda-graph-max-bs": "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs": "--cuda-graph-bs-decode",
    "--disable-cuda-graph": "--cuda-graph-backend-decode disabled",
    "--speculative-draft": "--speculative-draft-model-path",
    "--speculative-dflash-draft-window-size": "--speculative-draft-window-size",
    "--tensor-parallel": "--tp-size",
    "--model": "--model-path",
    "--max-model-len": "--context-length",
    "--gpu-memory-utilization": "--mem-fraction-static",
    "--tensor-parallel-size": "--tp-size",
    "--enforce-eager": "--disable-cuda-graph",
    "--max-num-seqs": "--max-running-requests",
    "--enable-reasoning": "--reasoning-parser NAME",
    "--enable-auto-tool-choice": "--tool-call-parser NAME",
}
_FLAG = re.compile(r"--[a-zA-Z][\w-]*")


def _flag_fix(case: Case) -> str:
    """The right name where it is known: renamed, ambiguous, written with underscores, or of the other engine."""
    text = case.found.string
    ambiguous = re.search(r"ambiguous option: (\S+) could match (.+)", text)
    if ambiguous:
        flag = ambiguous[1].partition("=")[0]
        options = [one.strip(" ,.") for one in re.split(r",| ", ambiguous[2]) if one.strip().startswith("--")]
        new = _RENAMED.get(flag) if _RENAMED.get(flag) in options else " or ".join(options)
        return f"Write {new} instead of {flag}."
    flags: list[str] = _FLAG.findall(text[case.found.start() :])
    hints = [_hint(flag, case) for flag in flags]
    known = [hint for hint in hints if hint]
    if known:
        return " ".join(known)
    choice = re.search(r"argument (\S+): invalid choice: ('?[^\s(]+'?) \(choose from (.+)\)", text)
    if choice:
        return f"{choice[1].split('/')[0]} takes one of: {choice[3][:300]}"
    named = f" {' '.join(flags)}" if flags else ""
    return f"Leave{named} out or correct it; python -m sglang.launch_server --help lists what this release takes."


def _hint(flag: str, case: Case) -> str:
    renamed = _RENAMED.get(flag)
    if renamed and not case.known.is_vllm:
        return f"Write {renamed} instead of {flag}."
    dashed = "--" + flag[2:].replace("_", "-")
    return f"Write {dashed} instead of {flag}." if dashed != flag else ""


def _said(case: Case) -> str:
    return case.found.string.partition("error: ")[2][:300] or case.incident.cause[1][:300]


def _last_frame(case: Case) -> str:
    return case.incident.frames[-1] if case.incident.frames else ""


_CONFIG = re.compile(
    r"server_args\.py|arg_groups/|arg_utils\.py|_args\.py|argparse\.py|entrypoints/openai/cli_args"
    r"|argparse_utils\.py|, in parse_args$"
)

ARGUMENTS: tuple[Rule, ...] = (
    rule(
        "bad_flag",
        r"(?:^|[\s:])error: (?:unrecognized arguments|ambiguous option|argument \S+"
        r"|the following arguments are required|one of the arguments|invalid choice|expected)"
        r"|^\S*(?:launch_server\S*|sglang|vllm|api_server\S*)(?: \w+)?: error: .+|No such option"
        r"|unrecognized arguments: --",
        lambda case: f"The command line was rejected: {_said(case)[:160]}",
        "The program does not take these arguments in this release, so nothing was started.",
        _flag_fix,
        weight="fatal",
    ),
)

RULES: tuple[Rule, ...] = (
    rule(
        "bad_flag",
        r"(?:AssertionError|ValueError|ValidationError|NotImplementedError|TypeError|JSONDecodeError|RuntimeError)\b",
        lambda case: f"The settings were rejected: {case.incident.cause[1][:160]}",
        "The engine checks its arguments against each other before it loads, and refused this combination.",
        lambda case: f"Change what the message names: {case.incident.cause[1][:200]}",
        on="block",
        needs=lambda case: bool(_CONFIG.search(_last_frame(case))) and "scheduler" not in case.incident.who,
    ),
    rule(
        "bad_flag",
        r"(?:Unknown|Invalid|Unrecognized) (?:attention|sampling|grammar|MoE|moe\w*) backend:? .+",
        lambda case: f"The settings were rejected: {case.found[0][:160]}",
        "The engine has no back end of this name in this release.",
        lambda case: f"Change what the message names: {case.found[0][:200]}",
    ),
    rule(
        "bad_flag",
        r"validation errors? for (?:ModelConfig|VllmConfig|ParallelConfig|EngineArgs|SchedulerConfig|CacheConfig"
        r"|SpeculativeConfig|ServerArgs|\w+Config)",
        lambda case: f"The settings were rejected: {case.text[:200].replace(chr(10), ' ')}",
        "The engine checks its arguments before it loads, and refused these.",
        lambda case: f"Change what the message names: {case.text[:240].replace(chr(10), ' ')}",
        on="block",
    ),
)

DEPENDENCIES: tuple[Rule, ...] = (
    rule(
        "missing_dependency",
        r"(?P<dist>\w[\w.-]*) with minimum required version (?P<version>\d[\w.]*) is not installed",
        "{dist} {version} or later is not installed",
        "The back end that was asked for (or chosen) needs this package, which is absent or older in the environment "
        "of the server.",
        "pip install '{dist}>={version}' into the environment of the server; or another --attention-backend and "
        "--sampling-backend.",
    ),
    rule(
        "missing_dependency",
        r"No module named '?(?P<module>[\w.]+)'?|cannot import name '(?P<name>\w+)' from '(?P<package>[\w.]+)'"
        r"|ModuleNotFoundError"
        r"|(?P<library>lib[\w.+-]+\.so[\w.]*|/[\w./+-]+/[\w.+-]+\.so): cannot open shared object file"
        r"|PackageNotFoundError"
        r"|DistributionNotFound|[Nn]o package metadata was found for (?P<dist>\w[\w-]*)"
        r"|(?:requires?|needs?) some operators from vllm|[Pp]lease (?:make sure .{0,40}is |)(?:install"
        r"|`?pip install)\b|(?:is|are) not installed|needs? to be installed"
        r"|requires? the [\w-]+ (?:library|package)|failed to run command .(?P<tool>[\w./-]+)."
        r"|exec: \"(?P<tool2>[\w./-]+)\": executable file not found|can't open file '(?P<file>[^']+)'"
        r"|(?P<tool3>[\w./-]+): (?:command )?not found"
        r"|Could not load any common_ops library|command not found|: not found$"
        r"|version .{0,40}is required but|>=[\d.]+ is required|less than the minimum required version|ImportError: "
        r"|requires? [\"'`](?P<dist2>[\w.-]+)[\"'`](?: to be)? installed"
        r"|[\"'`]?(?P<dist3>[\w.-]+)[\"'`]? is required(?:,)? but (?:it )?(?:is not|isn't|was not|could not be)"
        r" (?:installed|found|available|imported)",
        lambda case: f"Something that the engine needs is missing: {_missing(case)}",
        "A Python module, tool or shared library is absent from this environment, or is a version without what is "
        "asked of it.",
        lambda case: _install(case),
        needs=lambda case: "py-spy" not in case.found.string and "Ignore import error" not in case.found.string,
    ),
    rule(
        "missing_dependency",
        r"(?:^|[\s`'\"(:])(?:pip3?|uv pip) install (?:-U |--upgrade )?['\"`]?(?P<dist>\w[\w-]*)",
        lambda case: f"Something that the engine needs is missing: {_missing(case)}",
        "The exception asks for a package that is absent from this environment, or is too old.",
        lambda case: _install(case),
        on="block",
    ),
)


_NOT_OPENED = re.compile(r"(?P<library>lib[\w.+-]+\.so[\w.]*|/[\w./+-]+\.so): cannot open shared object file")


def _library(case: Case) -> str:
    """The shared library that is absent, which the lines below a bare ImportError may tell."""
    found = None if case.word("library") or case.word("module") else _NOT_OPENED.search(case.text)
    return found["library"] if found else case.word("library")


def _missing(case: Case) -> str:
    if _library(case):
        return _library(case)
    for name in ("module", "library", "dist", "tool", "file", "package"):
        if case.word(name):
            return case.word(name)
    return case.incident.cause[1][:120]


def _install(case: Case) -> str:
    module, library = case.word("module"), _library(case)
    tool = case.word("tool") or case.word("file")
    package = case.word("dist2") or case.word("dist3")
    if package:
        return f"pip install {package} into the environment of the server (which python; pip check shows other gaps)."
    if "torch_extensions/" in library:
        return f"rm -rf {library.rpartition('/')[0]}, so that the next start compiles it again."
    if library:
        where = (
            "apt-get install libnuma1" if "numa" in library else f"pip install the nvidia wheel that carries {library}"
        )
        return f"{where}, or put its folder into LD_LIBRARY_PATH (find / -name '{library}*')."
    asked = re.search(r"pip3? install ([\w.=<>\[\]'\" -]+)", case.text)
    if asked:
        return f"pip install {asked[1].strip()}"
    if module:
        package = {
            "sgl_kernel": "sglang-kernel",
            "common_ops": "sglang-kernel",
            "vllm": "vllm",
            "cv2": "opencv-python",
        }.get(module.partition(".")[0], module.partition(".")[0].replace("_", "-"))
        return f"pip install {package} into the environment of the server (which python; pip check shows other gaps)."
    if case.word("name"):
        return (
            f"pip install -U {case.word('package').partition('.')[0]} to the version that the engine pins (pip check)."
        )
    address = re.search(r"https?://[\w./-]+\w", case.text)
    if address and not tool:
        return f"Install it into the environment of the server, as {address[0]} says."
    return f"Install {tool or 'it'} into the environment of the server; pip check shows what else is missing."
