"""What stands in the model's folder beside its weights: configuration, index, tokenizer."""

from __future__ import annotations

from pathlib import Path

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_TOKENIZERS = ("tokenizer*", "*.tiktoken", "vocab*", "spiece.model", "tekken.json")


def _folder(case: Case) -> str:
    return case.word("folder") or str(case.known.get("model_path") or "the model")


def _lacks(case: Case, *patterns: str) -> bool:
    """Whether the folder is on this machine, and has no such file."""
    folder = Path(_folder(case))
    return folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in patterns)


def _download(case: Case, file: str) -> str:
    folder = _folder(case)
    if not folder.startswith(("/", ".", "~")):
        return f"hf download {folder} '{file}'"
    return f"hf download REPO '{file}' --local-dir {folder}"


def _config_summary(case: Case) -> str:
    if _lacks(case, "config.json"):
        return f"There is no config.json in {_folder(case)}"
    return f"The config.json of {_folder(case)} names no model type, or is not there"


def _tokenizer_summary(case: Case) -> str:
    if _lacks(case, *_TOKENIZERS):
        return f"There is no tokenizer in {_folder(case)}"
    return f"The tokenizer of {_folder(case)} cannot be built: a file of it or a package that reads it is missing"


RULES: tuple[Rule, ...] = (
    rule(
        "weights_corrupt",
        r"config file at '(?P<file>[^']+)' is not a valid JSON file",
        "A file of the model cannot be read: {file} is no valid JSON",
        "The file was cut short, edited by hand, or is no JSON at all (an LFS pointer, a page of errors).",
        "python -m json.tool {file} shows where it breaks; put back the file as it was published.",
    ),
    rule(
        "weights_corrupt",
        r"JSONDecodeError: (?P<why>.{0,120})",
        "A file of the model cannot be read: the index of its shards is no valid JSON ({why})",
        "model.safetensors.index.json was cut short, edited by hand, or is no JSON at all (an LFS pointer, a page of "
        "errors).",
        lambda case: (
            f"python -m json.tool {_folder(case)}/model.safetensors.index.json shows where it breaks; "
            f"{_download(case, '*.index.json')}"
        ),
        frames=r"filter_duplicate_safetensors_files|get_checkpoint_shard_files|_prepare_weights|weight_utils\.py",
        on="block",
    ),
    rule(
        "model_not_found",
        r"Unrecognized model in (?P<folder>\S+?)\.? Should have a `model_type` key",
        _config_summary,
        "What the engine was pointed at is no model in the form of transformers: its configuration is missing or is of "
        "something else (an adapter, a folder above or below, a checkpoint of a training run).",
        lambda case: f"ls {_folder(case)}; name the folder that holds config.json, or {_download(case, 'config.json')}",
    ),
    rule(
        lambda case: "model_not_found" if _lacks(case, *_TOKENIZERS) else "missing_dependency",
        r"Couldn't instantiate the backend tokenizer",
        _tokenizer_summary,
        "No tokenizer.json is there to be read as it is, and nothing that could be converted into one.",
        lambda case: (
            f"ls {_folder(case)}/tokenizer*; {_download(case, 'tokenizer*')}, or --tokenizer-path FOLDER; where there "
            "is only a tokenizer.model or a *.tiktoken: pip install sentencepiece tiktoken. Without any: "
            "--skip-tokenizer-init, and requests as input_ids."
        ),
    ),
)
