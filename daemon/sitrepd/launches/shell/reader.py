"""Which part of a told text is the server, what surrounds it, and how the text is to be changed to run it alone."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sitrepd.launches.shell.errors import CommandError, error_at
from sitrepd.launches.shell.names import BEFORE_A_PROGRAM, BUILTINS, DROPPED, QUIET, TEE_APPENDS, TEE_FLAGS
from sitrepd.launches.shell.prelude import Prelude
from sitrepd.launches.shell.streams import Streams, Target, redirect
from sitrepd.launches.shell.tree import (
    Simple,
    Statement,
    Word,
    assignments,
    command_name,
    operands,
    redirections_of,
    simple,
    statements,
)
from sitrepd.launches.shell.words import ShellState, expand_word

if TYPE_CHECKING:
    from tree_sitter import Node

_ENGINES = re.compile(r"sglang\.launch_server|sglang serve|vllm serve|vllm\.entrypoints|llama-server")
_NOT_SERVERS = {
    "function_definition": "A function",
    "for_statement": "A loop",
    "c_style_for_statement": "A loop",
    "while_statement": "A loop",
    "if_statement": "An if",
    "case_statement": "A case",
}
_NO_COMMANDS = frozenset(
    ["variable_assignment", "variable_assignments", "declaration_command", "unset_command", "test_command"]
)
_SAFE_AFTER_SOURCE = re.compile(
    r"python[\d.]*|sglang|vllm|torchrun|llama-server|uv|uvx|env|nice|numactl|taskset|stdbuf"
)
Edit = tuple[int, int, str]


@dataclass(slots=True)
class Reading:
    """What was made out; `edits` change the told bytes for `exec`, `plain_edits` only take the background away.

    `execs` is false where the server cannot replace the shell without changing what the text means.
    """

    source: bytes
    prelude: Prelude
    streams: Streams = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    plain_edits: list[Edit] = field(default_factory=list)
    suffix: str = ""
    execs: bool = True
    nohup: bool = False
    before: list[tuple[int, int]] = field(default_factory=list)
    assigned: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    """Raw text and value (None where unknown) of what is set for the server alone."""
    words: tuple[Word, ...] = ()
    tee: Target | None = None
    functions: set[str] = field(default_factory=set)

    @property
    def state(self) -> ShellState:
        return self.prelude.state

    def text(self) -> str:
        return self.source.decode()

    def error(self, offset: int, message: str) -> CommandError:
        """An error at a byte offset."""
        return error_at(self.text(), len(self.source[:offset].decode(errors="ignore")), message)


def read(root: Node, source: bytes, state: ShellState) -> Reading:
    """Read a whole text; raises CommandError where it is no server's command, Unread where that is unclear."""
    reading = Reading(source, Prelude(state))
    _block(reading, root, top=True)
    if reading.prelude.traps:
        reading.execs = False
    return reading


def _block(reading: Reading, block: Node, *, top: bool = False) -> None:
    found = statements(block)
    if not found:
        raise reading.error(block.start_byte, "There is nothing to run: give the command that starts the server.")
    _flag_as_command(reading, found)
    index = _server_index(reading, found)
    for statement in found[:index]:
        if statement.node.type == "function_definition":
            name = statement.node.child_by_field_name("name")
            reading.functions.add(((name and name.text) or b"").decode())
        if statement.ampersand is None:
            reading.prelude.apply(statement.node, reading.source)
    if index:
        reading.before.append((found[0].node.start_byte, found[index - 1].node.end_byte))
    server = found[index]
    _after(reading, server, found[index + 1 :], block, top=top)
    _resolve(reading, server.node, [])


def _server_index(reading: Reading, found: list[Statement]) -> int:
    loud = [number for number, statement in enumerate(found) if _may_serve(statement.node, reading.source)]
    loud = loud or [len(found) - 1]
    jobs = [number for number in loud if found[number].ampersand is not None]
    if len(jobs) > 1:
        start = found[jobs[1]].node.start_byte
        raise reading.error(start, "A second background job: launch each server by a command line of its own.")
    engines = [number for number in loud if _ENGINES.search((found[number].node.text or b"").decode())]
    if engines and not set(jobs) & set(engines):
        return engines[-1]
    return (jobs or loud)[-1]


def _may_serve(node: Node, source: bytes) -> bool:
    """Whether a statement can be the server at all, next to others: not a wait, a setting, a message."""
    name = command_name(node, source)
    if name is not None:
        return name not in QUIET and (name not in BUILTINS or name in BEFORE_A_PROGRAM)
    if node.type == "redirected_statement" and (body := node.child_by_field_name("body")):
        return _may_serve(body, source)
    if node.type == "list":
        return any(_may_serve(part, source) for _, part in operands(node))
    return node.type not in _NO_COMMANDS and node.type != "function_definition"


def _flag_as_command(reading: Reading, found: list[Statement]) -> None:
    for statement in found[1:]:
        name = command_name(statement.node, reading.source) or ""
        if re.match(r"--?[A-Za-z]", name):
            raise reading.error(
                statement.node.start_byte,
                f"A command begins with the flag {name}: the line before it must end with a backslash, "
                "with nothing after the backslash and no comment.",
            )


def _after(reading: Reading, server: Statement, rest: list[Statement], block: Node, *, top: bool) -> None:
    """Take the server out of the background, and deal with what the text does after starting it."""
    end = server.ampersand
    if end is None:
        reading.execs &= not rest
        return
    newline = "" if top and not rest else "\n"
    reading.edits.append((end, end + 1, newline))
    if not rest:
        reading.plain_edits.append((end, end + 1, newline))
        return
    for statement in rest:
        name = command_name(statement.node, reading.source)
        files = statement.node.type == "redirected_statement"
        pid_file = files and name in ("echo", "printf") and b"$!" in (statement.node.text or b"")
        if pid_file:
            told = (statement.node.text or b"").decode().replace("$!", "$$")
            reading.edits.append((server.node.start_byte, server.node.start_byte, f"{told}; "))
        reading.execs &= pid_file or (name in DROPPED and not files)
        if name == "disown":
            reading.plain_edits.append((statement.node.start_byte, statement.node.end_byte, ":"))
    closing = block.end_byte if top else block.children[-1].start_byte
    reading.edits.append((end + 1, closing, ""))
    reading.suffix = "\nwait $!" if top else ""


def _resolve(reading: Reading, node: Node, outer: list[Node]) -> None:
    """Go down to the simple command that is the server; `outer` are redirections that belong to it."""
    kind = node.type
    if kind == "redirected_statement":
        body = node.child_by_field_name("body")
        redirects = [child for child in node.children if "redirect" in child.type]
        if body is None:
            raise reading.error(node.start_byte, "There are redirections, but no command.")
        _resolve(reading, body, [*redirects, *outer])
    elif kind == "list":
        _resolve_list(reading, node, outer)
    elif kind == "pipeline":
        _resolve_pipeline(reading, node, outer)
    elif kind == "negated_command":
        reading.execs = False
        _resolve(reading, node.named_children[-1], outer)
    elif kind == "subshell" or (kind == "compound_statement" and node.children[0].type == "{"):
        _resolve_group(reading, node, outer)
    elif kind == "command":
        _server(reading, node, outer)
    elif kind in _NO_COMMANDS:
        raise reading.error(node.start_byte, "It starts no program: the command of the server is missing after it.")
    else:
        what = _NOT_SERVERS.get(kind, "This construct")
        raise reading.error(node.start_byte, f"{what} cannot be the server: put it in a script, and launch the script.")


def _resolve_list(reading: Reading, node: Node, outer: list[Node]) -> None:
    parts = operands(node)
    loud = [number for number, (_, part) in enumerate(parts) if _may_serve(part, reading.source)]
    index = loud[-1] if loud else len(parts) - 1
    reading.execs &= index == len(parts) - 1
    for operator, part in parts[:index]:
        if operator != "||":
            reading.prelude.apply(part, reading.source)
    if index:
        reading.before.append((parts[0][1].start_byte, parts[index - 1][1].end_byte))
    _resolve(reading, parts[index][1], outer if index == len(parts) - 1 else [])


def _resolve_group(reading: Reading, node: Node, outer: list[Node]) -> None:
    reading.streams = redirect(reading.streams, redirections_of(outer, reading.source), reading.state)
    if node.type == "subshell":
        first, last = node.children[0], node.children[-1]
        reading.edits += [(first.start_byte, first.end_byte, "{ "), (last.start_byte, last.end_byte, "\n}")]
    _block(reading, node)


def _resolve_pipeline(reading: Reading, node: Node, outer: list[Node]) -> None:
    parts = [child for child in node.children if child.type not in ("|", "|&", "comment")]
    bars = [child for child in node.children if child.type in ("|", "|&")]
    tee = _tee(reading, parts[1], outer) if len(parts) == 2 else None
    both = bars[0].type == "|&"
    if tee is None:
        reading.execs = False
        written = redirect({}, redirections_of(outer, reading.source), reading.state).get(1)
        reading.streams[1] = written or Target("|", None, False, bars[0].start_byte)
        _resolve_first(reading, parts[0], both=both)
        return
    reading.tee = reading.streams[1] = tee
    simple_first = parts[0].type == "command" or parts[0].named_children[0].type == "command"
    reading.execs &= simple_first
    operator = ">>" if tee.append else ">"
    reading.edits.append((parts[0].start_byte, parts[0].start_byte, f"{operator}{tee.raw} "))
    end = max(part.end_byte for part in [node, *outer])
    reading.edits.append((parts[0].end_byte, end, " 2>&1" if both else ""))
    _resolve_first(reading, parts[0], both=both)


def _resolve_first(reading: Reading, node: Node, *, both: bool) -> None:
    _resolve(reading, node, [])
    if both:
        reading.streams[2] = reading.streams.get(1)


def _tee(reading: Reading, node: Node, outer: list[Node]) -> Target | None:
    """The one file that a plain `tee` at the end of the pipeline writes, or None when it is anything else."""
    redirects = list(outer)
    while node.type == "redirected_statement" and (body := node.child_by_field_name("body")):
        redirects = [child for child in node.children if "redirect" in child.type] + redirects
        node = body
    if command_name(node, reading.source) != "tee":
        return None
    told = simple(node, redirects, reading.source)
    flags = [word.raw for word in told.words[1:] if word.raw.startswith("-")]
    files = [word for word in told.words[1:] if not word.raw.startswith("-")]
    quiet = all(one.target and one.target.raw in ("/dev/null", "1", "2") for one in told.redirections)
    if len(files) != 1 or not set(flags) <= TEE_FLAGS or not quiet:
        return None
    known = expand_word(files[0].raw, reading.state)
    if known is None or len(known) != 1 or reading.state.cwd is None:
        return None
    append = bool(set(flags) & TEE_APPENDS)
    path = os.path.normpath(os.path.join(reading.state.cwd, known[0]))
    return Target(files[0].raw, path, append, files[0].start)


def _server(reading: Reading, node: Node, outer: list[Node]) -> None:
    told = simple(node, outer, reading.source)
    reading.streams = redirect(reading.streams, told.redirections, reading.state)
    _assign_for_server(reading, node)
    words = _unwrap(reading, told)
    if not words:
        raise reading.error(node.start_byte, "There is no program in it: give the command that starts the server.")
    reading.words = words
    name = expand_word(words[0].raw, reading.state)
    plain = name[0] if name else words[0].raw
    if plain in reading.functions:
        raise reading.error(
            words[0].start, "A function cannot be the server: put it in a script, and launch the script."
        )
    reading.execs &= _can_exec(reading, plain, known=bool(name), told=told)


def _assign_for_server(reading: Reading, node: Node) -> None:
    """Assignments in front of the command: each sees those before it, the words of the command see none."""
    own = Prelude(reading.state)
    for name, operator, raw, _ in assignments(node, reading.source):
        own.set(name, operator, raw)
        reading.assigned[name] = (raw if operator == "=" else f"${{{name}}}{raw}", own.state.variables[name])


def _can_exec(reading: Reading, name: str, *, known: bool, told: Simple) -> bool:
    if not known or name in BUILTINS or f"BASH_FUNC_{name}%%" in reading.state.variables:
        return False
    texts = [word.raw for word in told.words] + [one.target.raw for one in told.redirections if one.target]
    if any("<(" in text or ">(" in text for text in texts):
        return False
    return reading.state.sure or "/" in name or bool(_SAFE_AFTER_SOURCE.fullmatch(name))


def _unwrap(reading: Reading, told: Simple) -> tuple[Word, ...]:
    """Take nohup, setsid, exec, command and env off the front; the words of the program itself."""
    words = list(told.words)
    at, has_exec, in_env = 0, False, False
    while at < len(words):
        name, after = words[at].raw, at + 1
        if name == "nohup":
            reading.nohup = True
        elif name == "setsid":
            while after < len(words) and words[after].raw in ("-f", "-w", "-c", "--fork", "--wait", "--ctty"):
                after += 1
        elif name in ("exec", "command") and not in_env:
            if after < len(words) and words[after].raw.startswith("-"):
                reading.execs &= name != "command"
                has_exec |= name == "exec"
                break
        elif name == "env" and (program := _after_env(reading, words, after)):
            at, in_env = program, True
            continue
        else:
            break
        if after >= len(words):
            return ()
        reading.edits.append((words[at].start, words[after].start, ""))
        at = after
    if not has_exec and words:
        reading.edits.append((words[0].start, words[0].start, "exec "))
    return tuple(words[at:])


def _after_env(reading: Reading, words: list[Word], at: int) -> int | None:
    """The index of the program that `env` runs, its assignments noted; None when env is the program itself."""
    unset: list[str] = []
    while at < len(words) and words[at].raw.startswith("-"):
        option = words[at].raw
        if option in ("-u", "--unset") and at + 1 < len(words):
            unset.append(words[at + 1].raw)
            at += 1
        elif not re.fullmatch(r"-u.+|--unset=.+|-i|-|--ignore-environment|--", option):
            return None
        at += 1
    pairs = {}
    while at < len(words) and (match := re.match(r"([A-Za-z_]\w*)=(.*)", words[at].raw, re.DOTALL)):
        known = expand_word(words[at].raw, reading.state)
        pairs[match[1]] = (match[2], known[0].partition("=")[2] if known and len(known) == 1 else None)
        at += 1
    if at >= len(words):
        return None
    reading.assigned = {name: one for name, one in reading.assigned.items() if name not in unset} | pairs
    return at


def server_state(reading: Reading) -> ShellState:
    """The state in which the server's own environment assignments hold too."""
    values = {name: value for name, (_, value) in reading.assigned.items()}
    return replace(reading.state, variables={**reading.state.variables, **values})


def edited(source: bytes, edits: list[Edit]) -> str:
    """The text with byte ranges replaced; insertions at one place keep their order, removals win."""
    result, at = [], 0
    removals = [(start, end) for start, end, new in edits if end > start]
    for start, end, new in sorted(edits, key=lambda edit: (edit[0], edit[1])):
        inside = any(
            first < start < last or (first <= start and end < last and end > start) for first, last in removals
        )
        if inside or start < at:
            continue
        result += [source[at:start].decode(), new]
        at = max(at, end)
    return "".join(result) + source[at:].decode()
