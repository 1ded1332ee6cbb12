"""Model folders that are whole, and such as are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.launches.check.subjects import CONFIG, GIB, hardware, model, shard, subject

from sitrepd.claims.gpus import wanted_gpus
from sitrepd.launches.check.draft import compared
from sitrepd.launches.check.folder import Folders, find, read
from sitrepd.launches.check.memory import Estimate, judged, kv_bytes_per_token, weights_of_a_gpu
from sitrepd.launches.check.model import Check
from sitrepd.launches.check.safetensors import read_shard
from sitrepd.launches.check.weights import about_folder, about_model


def about(folder: Path, load_format: str | None = None) -> Check:
    [check] = about_folder("model", "model", read(folder), load_format)
    return check


def test_a_whole_model(tmp_path: Path) -> None:
    check = about(model(tmp_path / "m", (100, 200, 300)))
    assert check.level == "ok"
    assert "3 shards" in check.text
    assert read(tmp_path / "m").weight_bytes == 600


def test_a_missing_shard_is_named_with_what_sglang_makes_of_it(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", (100, 200, 300))
    (folder / "model-00002-of-00003.safetensors").unlink()
    check = about(folder)
    assert check.level == "error"
    assert "1 of 3 shards" in check.text
    assert "model-00002-of-00003.safetensors is missing" in check.text
    assert "random weights" in check.text


def test_a_shard_that_is_cut_off(tmp_path: Path) -> None:
    folder = model(tmp_path / "m")
    path = folder / "model-00001-of-00002.safetensors"
    shard(path, {"w1": 100}, cut=40)
    whole = path.stat().st_size + 40
    assert f"is cut off: {whole - 40} of {whole} bytes" in about(folder).text
    path.write_bytes(path.read_bytes()[:30])
    assert "cut off in its header (30 bytes)" in about(folder).text
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    assert "is a Git LFS pointer" in about(folder).text
    path.write_bytes(b"")
    assert "cut off in its header" in about(folder).text
    path.write_bytes((5).to_bytes(8, "little") + b"{bad}")
    assert read_shard(path).problem == "has a header that cannot be read"


def test_less_than_the_index_promises(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", (100, 100))
    index = folder / "model.safetensors.index.json"
    index.write_text(index.read_text().replace('"total_size": 200', '"total_size": 250'))
    check = about(folder)
    assert (check.level, "50 bytes less" in check.text) == ("warning", True)


def test_folders_without_weights_or_config(tmp_path: Path) -> None:
    folder = model(tmp_path / "m", ())
    assert "holds no weights" in about(folder).text
    assert about(folder, "dummy").level == "ok"
    (folder / "x.gguf").write_text("")
    assert list(about_folder("model", "model", read(folder), None)) == []
    (folder / "config.json").write_text("{")
    assert "no config.json that can be read" in about(folder).text


def test_where_a_model_is_looked_for(tmp_path: Path) -> None:
    snapshot = model(tmp_path / "hf" / "hub" / "models--org--name" / "snapshots" / "abc")
    env = {"HF_HOME": str(tmp_path / "hf"), "HOME": str(tmp_path)}
    assert find("org/name", tmp_path, env) == snapshot
    assert find("org/other", tmp_path, env) is None
    assert find("~/hf", tmp_path, env) == tmp_path / "hf"
    [missing] = about_model("model", "/models/none", subject(env=env), Folders(), None)
    assert (missing.level, missing.text) == ("error", "The model /models/none is no folder on this host.")
    [fetched] = about_model("model", "org/other", subject(env=env), Folders(), None)
    assert (fetched.level, "fetched first" in fetched.text) == ("note", True)
    [offline] = about_model("model", "org/other", subject(env=env | {"HF_HUB_OFFLINE": "1"}), Folders(), None)
    assert (offline.level, "forbids" in offline.text) == ("error", True)


@pytest.mark.parametrize(
    ("algorithm", "draft", "level", "text"),
    [
        ("EAGLE3", {"hidden_size": 4096, "vocab_size": 32000}, "ok", "fits"),
        ("EAGLE3", {"hidden_size": 2048, "target_hidden_size": 4096, "vocab_size": 32000}, "ok", "fits"),
        ("EAGLE3", {"hidden_size": 3072, "vocab_size": 32000}, "error", "hidden size 3072; this target has 4096"),
        ("EAGLE3", {"hidden_size": 4096, "vocab_size": 128256}, "error", "vocabulary of 128256 tokens"),
        ("STANDALONE", {"hidden_size": 512, "vocab_size": 32000}, "ok", "fits"),
        ("EAGLE", {"hidden_size": 4096, "architectures": ["LlamaForCausalLMEagle3"]}, "warning", "is an EAGLE-3 draft"),
    ],
)
def test_a_draft_beside_its_target(algorithm: str, draft: dict[str, object], level: str, text: str) -> None:
    for target in (CONFIG, {"architectures": ["KimiK25"], "text_config": CONFIG}):
        [check] = compared(algorithm, target, draft)
        assert (check.level, text in check.text) == (level, True), check.text


def judge(weights: int, free: int, *flags: str) -> Check:
    facts = subject(*flags).facts
    return judged(
        Estimate(free * GIB, weights * GIB, facts.mem_fraction or 0.88, facts.mem_fraction is not None),
        facts,
        CONFIG,
        range(8),
    )


def test_memory_by_arithmetic() -> None:
    assert kv_bytes_per_token(CONFIG, subject().facts) == 2 * 32 * 8 * 128 * 2
    assert kv_bytes_per_token(CONFIG, subject("--tp-size", "8", "--kv-cache-dtype", "fp8_e4m3").facts) == 2 * 32 * 128
    latent = {"num_hidden_layers": 61, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert kv_bytes_per_token(latent, subject("--tp-size", "8").facts) == 61 * 576 * 2
    fits = judge(68, 95, "--mem-fraction-static", "0.9")
    assert fits.level == "ok"
    assert "about 17.5 GiB are left for the KV cache, about 143360 tokens" in fits.text
    assert judge(100, 95).level == "error"
    none = judge(68, 95, "--mem-fraction-static", "0.7")
    assert (none.level, none.fix) == ("error", "Write --mem-fraction-static 0.75.")
    assert judge(90, 95).level == "warning"
    short = judge(68, 95, "--mem-fraction-static", "0.9", "--context-length", "262144")
    assert (short.level, "less than the --context-length of 262144" in short.text) == ("warning", True)


def test_the_weights_of_one_gpu(tmp_path: Path) -> None:
    target = model(tmp_path / "m", (4 * GIB, 4 * GIB), holes=True)
    draft = model(tmp_path / "d", (GIB,), holes=True)
    flags = ("--tp-size", "4", "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(draft))
    assert weights_of_a_gpu(subject(*flags, model=target), Folders()) == 2 * GIB + GIB // 4
    assert weights_of_a_gpu(subject("--pp-size", "2", "--tp-size", "2", model=target), Folders()) == 2 * GIB
    assert weights_of_a_gpu(subject("--quantization", "fp8", model=target), Folders()) == 0


@pytest.mark.parametrize(
    ("flags", "env", "used", "count"),
    [
        ((), {}, (0,), 1),
        (("--tp-size", "4"), {}, (0, 1, 2, 3), 4),
        (("--tp-size", "2", "--base-gpu-id", "4"), {}, (4, 5), 2),
        (("--tp-size", "2", "--base-gpu-id", "1", "--gpu-id-step", "2"), {}, (1, 3), 2),
        (("--tp-size", "2", "--dp-size", "2"), {}, (0, 1, 2, 3), 4),
        (("--tp-size", "4", "--dp-size", "4", "--enable-dp-attention"), {}, (0, 1, 2, 3), 4),
        (("--tp-size", "16", "--nnodes", "2"), {}, tuple(range(8)), 8),
        (("--tp-size", "2"), {"CUDA_VISIBLE_DEVICES": "6,7"}, (6, 7), 2),
        (("--tp-size", "2"), {"CUDA_VISIBLE_DEVICES": "GPU-3,GPU-1aaaa"}, (3, 1), 2),
        (("--tp-size", "2"), {"CUDA_VISIBLE_DEVICES": "5,99,6"}, (5,), 2),
        (("--tp-size", "2"), {"CUDA_VISIBLE_DEVICES": ""}, (), 2),
        (("--device", "cpu"), {}, (), 0),
    ],
)
def test_which_gpus_a_command_takes(
    flags: tuple[str, ...], env: dict[str, str], used: tuple[int, ...], count: int
) -> None:
    wanted = wanted_gpus(subject(*flags).facts, env, [gpu.uuid for gpu in hardware().facts])
    assert (wanted.used, wanted.count) == (used, count)
