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


def _model(case: Case) -> str:
    return str(case.known.get("model_path") or "")


def _asks_for_one_file(case: Case) -> bool:
    """Whether the hub is only asked if it has one file more, of a model that may be in the cache."""
    return "in file_exists" in case.frames


def _hub_summary(case: Case) -> str:
    model = f"The model {_model(case)}".rstrip()
    if _asks_for_one_file(case):
        return f"{model} is named by its hub repository, and the hub was not reached to ask for a file of it"
    return f"{model} is not in the cache of this machine, and the hub was not reached"


def _hub_cause(case: Case) -> str:
    if _asks_for_one_file(case):
        return (
            "For a name of the hub the engine asks there whether a file exists, even when the model is in the cache; "
            "there is no connection, or HF_HUB_OFFLINE forbids one."
        )
    return (
        "No folder here has this name, so it is taken for a hub repository: nothing of that was downloaded before, and "
        "there is no connection (or HF_HUB_OFFLINE forbids one)."
    )


def _hub_fix(case: Case) -> str:
    model = _model(case)
    if _asks_for_one_file(case):
        name = model if model and not model.startswith("/") else "REPO"
        return (
            f"Name the folder instead, which needs no hub: {case.known.flag('model')} "
            f"$(HF_HUB_OFFLINE=1 hf download {name}); or unset HF_HUB_OFFLINE where there is a network."
            if name != "REPO"
            else f"Name the folder of the snapshot by {case.known.flag('model')}, which needs no hub; or unset "
            "HF_HUB_OFFLINE where there is a network."
        )
    whose = f"hf download {model}" if model and not model.startswith("/") else "hf download of the model"
    return (
        f"unset HF_HUB_OFFLINE and TRANSFORMERS_OFFLINE for a first download; curl -sI https://huggingface.co "
        f"shows whether "
        f"it can be reached (https_proxy, HF_ENDPOINT for a mirror); else {whose} where there is a network, "
        f"and the folder "
        "copied here and named by its path; HF_HOME names the cache that holds it already."
    )


RULES: tuple[Rule, ...] = (
    rule(
        "model_not_found",
        r"Failed to load LoRA adapter (?P<name>[^\s:]+): (?P<why>.*?(?:[Nn]ot found|Repo id must"
        r"|does not exist|No such file"
        r"|couldn't connect|Cannot find).*)",
        "The LoRA adapter {name} was not found",
        "The path or hub id given for the adapter does not resolve: {why}",
        "ls the folder given in --lora-paths {name}=FOLDER: it must hold adapter_config.json and the "
        "adapter's weights.",
    ),
    rule(
        "bad_flag",
        r"ValueError: (?P<path>/\S+) is not a file\.",
        "The settings were rejected: this --load-format wants one file, and {path} is a folder",
        "A GGUF checkpoint is a single file, and what the engine was pointed at is a folder.",
        "--model-path {path}/FILE.gguf; or leave --load-format out where the folder holds safetensors.",
        frames=r"in _prepare_weights",
        on="block",
    ),
    rule(
        "bad_flag",
        r"Chat template (?P<file>\S+) is not a built-in template name or a valid chat template file path",
        "The settings were rejected: there is no chat template {file}",
        "--chat-template wants the name of a built-in template or a file that is there.",
        "ls {file}; correct the path, or leave --chat-template out so that the tokenizer's own is used.",
    ),
    rule(
        "bad_flag",
        r"JSONDecodeError: (?P<why>.{0,120})",
        "The settings were rejected: what --json-model-override-args was given is no JSON ({why})",
        "The flag wants a JSON object in one word; the shell takes quotes away that are not inside others.",
        "Write it in single quotes with double quotes inside: --json-model-override-args "
        "'{{\"num_hidden_layers\": 2}}'.",
        on="block",
        needs=lambda case: "json.loads(model_override_args)" in case.frames or "override_args" in case.frames,
    ),
    rule(
        "model_not_found",
        r"outgoing traffic has been disabled|OfflineModeIsEnabled|couldn't connect to '?https?://\S*huggingface"
        r"|trying to locate the file on the Hub and we cannot find the requested files in the local cache",
        _hub_summary,
        _hub_cause,
        _hub_fix,
    ),
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
        r"Unrecognized model in (?P<folder>\S+?)\.?\s+Should have a `model_type` key",
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
