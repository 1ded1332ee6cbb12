"""Names of shell commands, sorted by what they mean for a launch."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


BUILTINS = _names(
    """. : [ alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs
    disown echo enable eval exec exit export false fc fg getopts hash help history if jobs kill let local logout
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source suspend test time times
    trap true type typeset ulimit umask unalias unset until wait while"""
)
BEFORE_A_PROGRAM = _names("exec command time eval coproc")
"""Built-in, yet what they are given may be the server."""
QUIET = _names("echo printf disown wait sleep tail jobs true : cat date exit ps pwd less")
"""Never the server, when anything else is there."""
DROPPED = _names("echo printf disown wait sleep tail jobs true : date ps exit")
"""Of no use once nobody sits at the terminal, when they follow a server that went to the background."""
HARMLESS_AFTER_OR = _names("exit return echo true : printf")
CHANGES_ANYTHING = _names(
    "eval read mapfile readarray let getopts conda mamba micromamba module ml pushd popd trap exec"
)
KEEPS_CWD = CHANGES_ANYTHING - _names("eval pushd popd")
NEEDS_SHELL = _names("trap exec eval")
"""After these, replacing the shell by the server could skip what they arranged."""
MAKES_NO_FILES = _names("set ulimit umask export unset echo printf true : sleep shopt")
TEE_FLAGS = _names("-a --append -i --ignore-interrupts -p -ai -ia")
TEE_APPENDS = _names("-a --append -ai -ia")
