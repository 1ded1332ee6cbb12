"""Flags against the options of a parser, and the options of an SGLang that a fake interpreter has."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.launches.check.subjects import server

from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.flags import compared
from sitrepd.launches.check.installed import Installed, installed_sglang
from sitrepd.launches.check.model import Check
from sitrepd.launches.check.subject import subject_of
from sitrepd.launches.models import LaunchCreate


def option(*opts: str, nargs: Any = None, type: str | None = "str", choices: Any = None, help: str = "") -> Any:
    dest = opts[0].lstrip("-").replace("-", "_")
    return {"opts": list(opts), "dest": dest, "nargs": nargs, "type": type, "choices": choices, "help": help}


OPTIONS = [
    option("--model-path", "--model"),
    option("--tp-size", "--tensor-parallel-size", type="int"),
    option("--mem-fraction-static", type="float"),
    option("--context-length", type="int"),
    option("--speculative-algorithm", type="<lambda>", choices=["EAGLE"]),
    option("--speculative-draft-model-path", "--speculative-draft-model"),
    option("--speculative-draft-window-size", type="int"),
    option("--attention-backend", choices=["fa3", "flashinfer", "triton"]),
    option("--disable-cuda-graph", nargs=0, type=None, help="Deprecated. Use --cuda-graph-backend instead."),
    option("--lora-paths", nargs="*"),
    option("--cuda-graph-bs", nargs="+", type="int"),
]


def found(*words: str, exact: bool = True) -> list[Check]:
    return list(compared(words, OPTIONS, "SGLang 0.5.23", exact=exact))


@pytest.mark.parametrize(
    "words",
    [
        ("--model-path", "/m", "--tp-size", "8", "--mem-fraction-static=0.9"),
        ("--lora-paths", "a=b", "c=d", "--cuda-graph-bs", "1", "2", "4"),
        ("--attention-backend", "fa3", ">", "log", "--not-a-flag"),
        ("--speculative-algorithm", "eagle3"),
        ("/positional/model",),
    ],
)
def test_what_the_parser_knows_is_not_held_against_it(words: tuple[str, ...]) -> None:
    assert found(*words) == []


@pytest.mark.parametrize(
    ("words", "level", "text", "fix"),
    [
        (("--max-model-len", "3"), "error", "does not know --max-model-len", "Write --context-length."),
        (("--speculative-dflash-draft-window-size", "3"), "error", "does not know", "--speculative-draft-window-size"),
        (("--enable-prefix-caching",), "error", "does not know", "Leave it out"),
        (("--mem-fraction-statik", "0.9"), "error", "does not know", "Did you mean --mem-fraction-static?"),
        (("--frobnicate-entirely",), "error", "does not know", None),
        (("--speculative-draft", "x"), "error", "ambiguous", "Write --speculative-draft-model-path."),
        (("--speculative-d=x",), "error", "ambiguous", "Write the whole name."),
        (("--speculative-algo", "EAGLE"), "note", "is read by SGLang 0.5.23 as --speculative-algorithm", None),
        (("--disable-cuda-graph",), "note", "Deprecated. Use --cuda-graph-backend", None),
        (("--tp-size", "eight"), "error", "invalid int value: 'eight'", None),
        (("--tp-size",), "error", "expected one argument", None),
        (("--attention-backend", "fa4"), "error", "invalid choice: 'fa4'", None),
    ],
)
def test_what_it_would_refuse(words: tuple[str, ...], level: str, text: str, fix: str | None) -> None:
    [check] = found(*words)
    assert (check.name, check.level) == ("flags", level)
    assert text in check.text
    assert (fix is None and not check.fix) or (fix is not None and check.fix is not None and fix in check.fix)


def test_each_bad_flag_is_named_once() -> None:
    assert [check.text.split()[-1] for check in found("--aaaa", "1", "--bbbb", "--aaaa=2")] == ["--aaaa.", "--bbbb."]


def test_words_that_the_shell_has_yet_to_find_out_are_not_judged() -> None:
    assert found("--tp-size", "$TP", exact=False) == []


FAKE = """
from __future__ import annotations
import argparse, os
with open(os.environ["READS"], "a") as file:
    file.write("read\\n")
{imports}

class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--tp-size", type=int)
        parser.add_argument("--attention-backend", choices=["fa3", "triton"])
"""
HEAVY = """
import torch, triton.language as tl
from transformers import PretrainedConfig
from sglang.srt.kinds import Kind
@torch.no_grad()
def decorated(x: torch.Tensor | None = None): ...
class Config(PretrainedConfig): ...
WIDE = torch.cuda.is_available() or isinstance(1, torch.Tensor.__class__)
"""


class Fake:
    """A folder with an SGLang of our own, for the interpreter of these tests."""

    def __init__(self, root: Path, imports: str = HEAVY) -> None:
        self.packages, self.reads = root / "packages", root / "reads"
        self.folder = root / "flags"
        srt = self.packages / "sglang" / "srt"
        srt.mkdir(parents=True)
        (self.packages / "sglang" / "__init__.py").write_text("import torch\n")
        (srt / "__init__.py").write_text("")
        (srt / "kinds.py").write_text("import enum\nclass Kind(enum.Enum):\n    A = 'a'\n")
        self.args = srt / "server_args.py"
        self.args.write_text(FAKE.format(imports=imports))

    def ask(self, timeout_s: float = 30) -> Installed:
        env = {"PYTHONPATH": str(self.packages), "READS": str(self.reads)}
        body = LaunchCreate(argv=server(), env=env, cwd=str(self.packages.parent))
        return installed_sglang(subject_of(body, LiveHardware()), self.folder, timeout_s)

    @property
    def times_read(self) -> int:
        return self.reads.read_text().count("read") if self.reads.exists() else 0


def test_the_parser_is_read_without_torch_and_kept_by_version(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    first = fake.ask()
    assert first.reason is None
    names = [name for one in first.options or () for name in one["opts"]]
    assert names == ["-h", "--help", "--model-path", "--tp-size", "--attention-backend"]
    [kept] = fake.folder.glob("*.json")
    assert json.loads(kept.read_text())["how"] == "without torch"
    again = fake.ask()
    assert (again.options, again.cached, first.cached, fake.times_read) == (first.options, True, False, 1)
    fake.args.write_text(FAKE.format(imports=HEAVY) + "# edited\n")
    assert fake.ask().cached is False
    assert fake.times_read == 2


def test_where_it_needs_torch_itself_it_is_imported(tmp_path: Path) -> None:
    fake = Fake(tmp_path, "import torch\nassert torch.REAL == 7\n")
    (fake.packages / "torch.py").write_text("REAL = 7\n")
    found = fake.ask()
    assert found.options
    assert json.loads(next(fake.folder.glob("*.json")).read_text())["how"] == "imported"


def test_a_damaged_copy_is_read_anew(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.ask()
    next(fake.folder.glob("*.json")).write_text("{")
    assert fake.ask().options is None
    assert fake.ask().options


def test_a_parser_that_breaks_and_one_that_hangs_are_said_so(tmp_path: Path) -> None:
    without = Fake(tmp_path / "a", "raise RuntimeError('no licence')\n")
    (without.packages / "torch.py").write_text("")
    broken = without.ask()
    assert broken.options is None
    assert "no licence" in str(broken.reason)
    hangs = Fake(tmp_path / "b", "import time\ntime.sleep(60)\n").ask(1.0)
    assert "did not finish within 1 s" in str(hangs.reason)


def test_an_interpreter_without_sglang(tmp_path: Path) -> None:
    body = LaunchCreate(argv=server(), env={}, cwd=str(tmp_path))
    found = installed_sglang(subject_of(body, LiveHardware()), tmp_path / "flags", 30)
    assert (found.found, found.reason) == (False, f"{sys.executable} finds no SGLang")
