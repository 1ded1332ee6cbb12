"""Commands that a shell, or a program that starts others, could not run."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_WHY = (
    r"Permission denied|cannot execute[^\n]*|Exec format error|No such file or directory"
    r"|(?:\S+: )?bad interpreter[^\n]*"
)
_NAME = r"(?!\S+\.(?:log|out|err|txt)\b)[^'’\s:]+"
"""What is executed; a file that output was to go to is refused in the same words."""
_STARTERS = "env|setsid|nice|nohup|timeout|stdbuf|taskset|ionice|chrt|setpriv|unshare|sudo|script|xargs"


def _tool(case: Case) -> str:
    return case.word("tool")


def _why(case: Case) -> str:
    return case.word("why")


def _category(case: Case) -> str:
    why = _why(case)
    if "Exec format" in why:
        return "abi_mismatch"
    return "unknown" if "denied" in why else "missing_dependency"


def _fix(case: Case) -> str:
    tool, why = _tool(case), _why(case)
    if "Exec format" in why:
        return f"file {tool} and uname -m show for which processor each is; take the build for this machine."
    if "denied" in why:
        return f"namei -l {tool} shows which permission is missing: chmod +x {tool}, or bash {tool} for a script."
    if "interpreter" in why:
        return f"head -1 {tool} names it; make the environment anew (a venv that was moved or copied breaks so)."
    return (
        f"ls -l {tool} and which {tool.rpartition('/')[2]}; activate the environment of the server, or write its path."
    )


RULES: tuple[Rule, ...] = (
    rule(
        _category,
        rf"^-?(?:\S*/)?(?:ba|da|z|k)?sh: (?:line )?(?:\d+: )?(?:exec: )?(?P<tool>{_NAME}): (?P<why>{_WHY})$"
        rf"|^(?:{_STARTERS}): (?:failed to (?:run command|execute) )?['`‘]?(?P<tool2>{_NAME})['’]?: (?P<why2>{_WHY})$",
        lambda case: f"The command could not be run: {_tool(case)}: {_why(case)}",
        "The shell, or the program that was to start it, could not execute it, so no server was started.",
        _fix,
        on="line",
    ),
)
