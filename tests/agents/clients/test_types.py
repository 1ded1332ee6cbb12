"""Our hooks and our plug-in against the types that the clients ship."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tests.agents.clients.having import claude_types, folder

from sitrepd.paths import resource_dir

pytestmark = pytest.mark.clients
AGENTS = resource_dir("deploy/agents")
_FIELDS = {
    "SessionStart": ("session_id", "transcript_path", "cwd", "hook_event_name", "source"),
    "UserPromptSubmit": ("session_id", "prompt", "prompt_id"),
    "PreCompact": ("trigger", "custom_instructions"),
    "PostCompact": ("trigger", "compact_summary"),
    "Stop": ("last_assistant_message", "background_tasks"),
    "SubagentStop": ("agent_id", "agent_type"),
    "Notification": ("notification_type",),
    "PostToolUse": ("tool_name", "tool_input", "tool_response", "tool_use_id"),
    "SessionEnd": ("reason",),
}


def check(work: Path, source: str) -> str:
    """What the compiler has to say against it."""
    (work / "node_modules").symlink_to(folder() / "node_modules")
    (work / "check.ts").write_text(source)
    options = {
        "strict": True, "noEmit": True, "skipLibCheck": True, "allowJs": True, "checkJs": False, "target": "es2022",
        "module": "nodenext", "moduleResolution": "nodenext", "types": ["node"], "noImplicitAny": False,
    }  # fmt: skip
    (work / "package.json").write_text('{"type": "module"}')
    (work / "tsconfig.json").write_text(json.dumps({"compilerOptions": options, "files": ["check.ts"]}))
    command = ["node", str(folder() / "node_modules/typescript/bin/tsc"), "-p", "."]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr


def test_the_plugin_is_one_of_opencode(tmp_path: Path) -> None:
    script = (AGENTS / "opencode/sitrep.js").read_text()
    (tmp_path / "sitrep.js").write_text(script)
    listened = re.findall(r'^    "([a-z]+\.[a-z.]+)": (?:async )?\(\{', script, re.MULTILINE)
    assert "session.compacted" in listened
    source = f"""
        import type {{ Hooks, Plugin }} from "@opencode-ai/plugin"
        import type {{ Event }} from "@opencode-ai/sdk"
        import {{ Sitrep }} from "./sitrep.js"
        type Ours = Awaited<ReturnType<typeof Sitrep>>
        type Unknown = Exclude<keyof Ours, keyof Hooks>
        export const none: Unknown[] extends never[] ? true : Unknown = true
        export const plugin: Plugin = Sitrep
        export const events: Event["type"][] = {json.dumps(listened)}
    """
    assert check(tmp_path, source) == ""


def test_what_would_not_fit_opencode_is_found(tmp_path: Path) -> None:
    (tmp_path / "sitrep.js").write_text('export const Sitrep = async () => ({ "session.compact": async () => {} })')
    source = """
        import type { Hooks } from "@opencode-ai/plugin"
        import { Sitrep } from "./sitrep.js"
        type Unknown = Exclude<keyof Awaited<ReturnType<typeof Sitrep>>, keyof Hooks>
        export const none: Unknown[] extends never[] ? true : Unknown = true
    """
    assert "session.compact" in check(tmp_path, source)


def test_the_second_plugin_interface_of_opencode_has_no_hook_of_a_compaction() -> None:
    """Where this fails, there is one, which our plug-in is to offer too."""
    told = list((folder() / "node_modules/@opencode-ai/plugin/dist/v2").rglob("*.d.ts"))
    assert told
    assert [path.name for path in told if "compact" in path.read_text().casefold()] == []


def test_claude_code_runs_hooks_in_the_background_and_is_woken_by_them() -> None:
    hooks = json.loads((AGENTS / "claude-code/hooks/hooks.json").read_text())["hooks"]["Stop"][0]["hooks"]
    assert [one.get("asyncRewake", False) for one in hooks] == [False, True]
    assert re.search(r"asyncRewake\?: boolean", claude_types().read_text())


def test_claude_code_has_the_events_and_fields_that_we_go_by(tmp_path: Path) -> None:
    (tmp_path / "claude.d.ts").write_bytes(claude_types().read_bytes())
    events = list(json.loads((AGENTS / "claude-code/hooks/hooks.json").read_text())["hooks"])
    assert set(events) < set(_FIELDS)
    fields = "\n".join(
        f"export const _{event}: Every<keyof Of<{json.dumps(event)}>>[] = {json.dumps(names)}"
        for event, names in _FIELDS.items()
    )
    source = f"""
        import type {{ HookEvent, HookInput, HookJSONOutput }} from "./claude.js"
        type Every<T> = T
        type Of<E extends HookEvent> = Required<Extract<HookInput, {{ hook_event_name: E }}>>
        export const events: HookEvent[] = {json.dumps(events)}
        {fields}
        export const start: HookJSONOutput =
            {{ hookSpecificOutput: {{ hookEventName: "SessionStart", additionalContext: "text" }} }}
        export const prompt: HookJSONOutput =
            {{ hookSpecificOutput: {{ hookEventName: "UserPromptSubmit", additionalContext: "text" }} }}
    """
    assert check(tmp_path, source) == ""
