"""The reference pages of docs/, made from the code; tests hold them against it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from sitrepd.checkpoints.schema import schema
from sitrepd.cli import root, verbs
from sitrepd.settings import Settings, load_settings

DOCS = Path(__file__).resolve().parent.parent / "docs"
_MADE = "<!-- Made from the code by scripts/docs; a test holds it against the code. -->"
_COMMON = ("json_", "session", "data_dir", "no_start", "version")
_METHODS = ("get", "post", "put", "patch", "delete")
# What concerns a caller alone, and is no setting of the daemon.
CALLERS = {
    "SITREP_CONFIG": "The settings file; `sitrep/config.toml` in the user's configuration folder if absent.",
    "SITREP_SESSION": "The session that is meant, by id or name, as `--session` says it.",
    "SITREP_CONVERSATION": "The client's own conversation id, by which a session is found; CLAUDE_CODE_SESSION_ID or "
    "CODEX_THREAD_ID, which those clients set in their shells, if absent.",
    "SITREP_URL": "Where the daemon is: `http://host:port`, `https://…`, `unix:///path/to/sitrep.sock`, "
    "`ssh://user@box[:port][/path/to/store]`; the socket of the store if absent.",
    "SITREP_HOSTNAME": "What this machine is called to a daemon on another (SITREP_URL); its own name if absent.",
    "SITREP_TOKEN": "The token for SITREP_URL; the file `token` of the store if absent.",
    "SITREP_LAUNCH": "Set by the daemon in what it starts: the folder of its launch, by which its remains are known.",
    "SITREP_NO_START": "`1`: never start a daemon, as `--no-start` says it.",
}


def pages() -> dict[str, str]:
    """The text of each page by file name."""
    shape = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    return {
        "cli.md": cli_page(), "settings.md": settings_page(), "api.md": api_page(), "checkpoint.schema.json": shape,
    }  # fmt: skip


def cli_page() -> str:
    command = get_command(root.app)
    top = typer.Context(command, info_name="sitrep")  # type: ignore[arg-type]
    lines = ["# The command line", "", _MADE, "", *_cli_head(command)]
    for name in command.list_commands(top):  # type: ignore[attr-defined]
        lines += _verb_lines(root.load(name), f"sitrep {name}", top)
    return "\n".join(lines) + "\n"


def _cli_head(command: Any) -> Iterator[str]:
    yield (
        "`sitrep` (and, the same, `sitrepd`) speaks to the daemon of the store: through the store's socket, or where "
        "SITREP_URL says. Where none runs, it starts one and says so on standard error. Which session is meant: "
        "`--session` or SITREP_SESSION, the client's conversation (SITREP_CONVERSATION), the folder that `sitrep init` "
        "tied to one, the only open session; else an error that lists them."
    )
    yield ""
    yield "These options may stand before the verb, and after it:"
    yield ""
    yield from _table(("option", "meaning"), _options(param for param in command.params if param.name in _COMMON))
    yield ""
    yield "Exit status:"
    yield ""
    yield from _table(("status", "meaning"), ((str(code), about) for code, about in verbs.EXIT_CODES.items()))
    yield ""
    yield (
        "With `--json` standard output has what the API answered, as it came (lists as its page object), and standard "
        "error the problem object where it refused. Without it, people get aligned columns, times in their own zone, "
        "and colour in a terminal alone."
    )
    yield ""
    names = ", ".join(f"`{alias}` ({name})" for alias, name in root.ALIASES.items())
    yield f"Other names of verbs: {names}. The plural of a noun lists."
    yield ""


def _verb_lines(command: Any, path: str, parent: Any) -> list[str]:
    context = typer.Context(command, info_name=path.rpartition(" ")[2], parent=parent)  # type: ignore[arg-type]
    subcommands = getattr(command, "commands", None)
    if subcommands is not None:
        lines = [f"## {path}", "", *_paragraphs(command.help), ""]
        for name, sub in subcommands.items():
            lines += _verb_lines(sub, f"{path} {name}", context)
        return lines
    level = "###" if path.count(" ") > 1 else "##"
    arguments = [_argument(param) for param in command.params if param.param_type_name == "argument"]
    usage = " ".join([path, *arguments, "[OPTIONS]"])
    if command.context_settings.get("allow_interspersed_args") is False:
        usage = " ".join([path, "[OPTIONS] --", *arguments])
    lines = [f"{level} {path}", "", f"    {usage}", "", *_paragraphs(command.help), ""]
    rows = list(_options(param for param in command.params if param.name not in verbs.COMMON))
    return [*lines, *_table(("argument or option", "meaning"), rows), ""] if rows else lines


def _argument(param: Any) -> str:
    name = f"{_metavar(param)}…" if param.nargs == -1 else _metavar(param)
    return name if param.required else f"[{name}]"


def _options(params: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for param in params:
        if param.hidden:
            continue
        if param.param_type_name == "argument":
            yield f"`{_metavar(param)}`", param.help or ""
            continue
        names = ", ".join([*param.opts, *param.secondary_opts])
        plain = param.is_flag or param.default in (None, (), [])
        default = "" if plain or not param.show_default else f" Default: {param.default}."
        yield f"`{names if param.is_flag else f'{names} {_metavar(param)}'}`", f"{param.help}{default}"


def _metavar(param: Any) -> str:
    choices = param.type_descriptor.choices
    if param.metavar is not None or choices is None:
        number = param.type_descriptor.annotation in (int, float)
        return str(param.metavar or ("N" if number else "TEXT"))
    return "|".join(choices)


def _paragraphs(text: str | None) -> list[str]:
    """Help text with one line a paragraph."""
    return [" ".join(part.split()) if part else "" for part in _split(text or "")]


def _split(text: str) -> list[str]:
    return [piece for part in text.strip().split("\n\n") for piece in (part, "")][:-1]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [head, tuple("---" for _ in head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def settings_page() -> str:
    rows = []
    for name, field in Settings.model_fields.items():
        default = field.get_default() if field.default_factory is None else _default_of(name)
        rows.append((f"`{name}`", f"`SITREP_{name.upper()}`", _shown(default), field.description or ""))
    head = (
        "A setting is read from the command line where a verb has an option for it, then from the environment, then "
        "from the settings file (TOML, `sitrep/config.toml` in the user's configuration folder, or SITREP_CONFIG), "
        "then it has its default. `sitrep settings` lists what holds, and where each value comes from."
    )
    callers = [(f"`{name}`", about) for name, about in CALLERS.items()]
    lines = ["# Settings", "", _MADE, "", head, "", *_table(("setting", "environment", "default", "meaning"), rows), ""]
    lines += ["These variables concern the caller alone:", "", *_table(("environment", "meaning"), callers)]
    return "\n".join(lines) + "\n"


def _default_of(name: str) -> Any:
    return {"data_dir": "`sitrep` in the user's state folder; a folder a host in it where homes are shared"}.get(
        name, []
    )


def _shown(value: Any) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, str) and " " in value:
        return value
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def api_page() -> str:
    schema = openapi()
    head = (
        "Everything is below `/api/v1`; the whole description, with the shapes of bodies and answers, is at "
        "`/api/v1/openapi.json`. Lists take `limit` and `cursor`; errors are `application/problem+json` (RFC 9457). "
        "The headers X-Sitrep-Session, X-Sitrep-Conversation and X-Sitrep-Cwd say which session is meant, and "
        "X-Sitrep-Client who speaks; through TCP `Authorization: Bearer TOKEN` is wanted: see `token` in the store."
    )
    by_tag: dict[str, list[tuple[str, ...]]] = {}
    for path, methods in schema["paths"].items():
        for method in _METHODS:
            if method in methods:
                one = methods[method]
                about = one.get("description") or one.get("summary") or ""
                row = (
                    method.upper(),
                    f"`{path}`",
                    f"`{one['operationId']}`",
                    about.split("\n\n")[0].replace("\n", " "),
                )
                by_tag.setdefault(one.get("tags", ["daemon"])[0], []).append(row)
    lines = ["# The REST API", "", _MADE, "", head, ""]
    for tag in sorted(by_tag):
        lines += [f"## {tag}", "", *_table(("method", "path", "operation id", "what it does"), by_tag[tag]), ""]
    return "\n".join(lines).rstrip() + "\n"


def openapi() -> dict[str, Any]:
    """The API's own description, of an application on an empty store."""
    from sitrepd.app import create_app

    with tempfile.TemporaryDirectory() as folder:
        app = create_app(load_settings(data_dir=Path(folder) / "store"))
        try:
            found: dict[str, Any] = app.openapi()
        finally:
            app.state.runtime.store.close()
    return found


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    main()
