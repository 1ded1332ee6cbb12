"""The model's files: found, whole, readable."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_UNNAMED = "the model"
_ON_THE_HUB = re.compile(r"huggingface\.co/(?:api/models/)?([\w.-]+/[\w.-]+)(?=/|[ '\"]|$)")
_SHARD = r"[\w./-]*\.(?:safetensors|bin|pt|pth|gguf)"


def _model(case: Case) -> str:
    """From the settings, else from the address of the hub that the message names."""
    named = _ON_THE_HUB.search(case.text)
    return str(case.known.get("model_path") or (named[1] if named else _UNNAMED))


def _download(case: Case) -> str:
    model = _model(case)
    if model == _UNNAMED:
        return "download the model again (hf download resumes), and compare the folder with its index."
    where = f"hf download {model}" if not model.startswith(("/", ".", "~")) else f"hf download REPO --local-dir {model}"
    return f"{where} (it resumes); compare the folder with model.safetensors.index.json before the next start."


_READS_WEIGHTS = re.compile(
    r"torch/serialization\.py|weight_utils|model_loader|load_weights|weights_iterator|torch_load|safetensors|gguf"
    r"|load_state_dict|in load_model|modeling_utils"
)
_OF_ANY_FILE = re.compile(
    r"invalid load key|UnpicklingError|pickle data was truncated|[Cc]hecksum mismatch|bad magic number"
    r"|not a zip archive|unexpected EOF"
)
_READS_OTHERS = re.compile(
    r"zmq|recv_pyobj|recv_multipart|sockets?\b|custom_all_reduce|p2p_access|subprocess|importlib"
)


def _is_of_weights(case: Case) -> bool:
    """Pickles and archives come over sockets, from children and out of caches too."""
    if not _OF_ANY_FILE.search(case.found[0]):
        return True
    if case.frames:
        return _READS_WEIGHTS.search(case.frames) is not None
    return _READS_OTHERS.search(case.text) is None


def _missing_summary(case: Case) -> str:
    shard = case.word("shard").rpartition("/")[2]
    return f"Weights are missing: {shard}" if shard else "The weights of the model are missing or incomplete"


def _sizes(case: Case) -> str:
    model = _model(case)
    return f"ls -lL {model}/*.safetensors and compare the sizes; " if model.startswith(("/", ".", "~")) else ""


def _find_model(case: Case) -> str:
    model = _model(case)
    if re.search(r"OfflineModeIsEnabled|outgoing traffic has been disabled|HF_HUB_OFFLINE", case.text):
        return (
            "unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE where the machine reaches the hub; else "
            f"{_download(case).partition(';')[0]} on one that does, and copy its cache or folder here."
        )
    folder = f"ls {model}/config.json for a folder; " if model != _UNNAMED else ""
    return (
        f"{folder}for the hub check the name, the network and HF_TOKEN (gated models need their licence accepted): hf "
        "auth whoami."
    )


RULES: tuple[Rule, ...] = (
    rule(
        "weights_corrupt",
        rf"(?P<why>(?:Remote |Input/output |I/O )+error|Stale file handle|Transport endpoint is not connected)"
        rf"[^\n]{{0,20}}?(?P<shard>{_SHARD})",
        "A file of the weights cannot be read: {why}",
        "The disk or the network file system under {shard} failed to read it; the file itself may be whole.",
        "cat {shard} > /dev/null shows whether it can be read now; dmesg -T | grep -iE 'i/o error|nvme|nfs' and df -h "
        "{shard} name the device; mount it anew, or copy the model to another disk.",
    ),
    rule(
        "weights_corrupt",
        r"Error while deserializing header|SafetensorError|HeaderTooLarge|HeaderTooSmall|InvalidHeader\w*"
        r"|MetadataIncompleteBuffer"
        r"|incomplete metadata, file not fully covered|PytorchStreamReader failed|invalid load key|UnpicklingError"
        r"|pickle data was truncated"
        r"|unexpected EOF, expected|failed finding central directory|corrupt(?:ed)? (?:checkpoint|shard|weight|file)"
        r"|[Cc]hecksum mismatch|Consistency check failed: file should be of size|bad magic number|invalid GGUF"
        r"|not a zip archive",
        "A file of the weights cannot be read: it is truncated or corrupt",
        "A shard is shorter than its header says, or is no weights file at all (an LFS pointer, an interrupted copy).",
        lambda case: f"{_sizes(case)}delete the bad shard, then {_download(case)}",
        needs=_is_of_weights,
    ),
    rule(
        "weights_missing",
        r"references \d+ shard file\(s\) missing|Missing keys? .{0,200} in (?:\w+ )?checkpoint"
        r"|missing from .{0,200}incomplete download[^\n]*?'(?P<shard>[^']+)'"
        r"|Cannot find any model weights|[Ii]ncomplete (?:download|checkpoint)|Missing (?:checkpoint )?(?:shard"
        r"|weight)s?\b"
        rf"|No such file or directory: [\"']?(?P<shard2>{_SHARD})"
        rf"|(?P<shard3>model-\d+-of-\d+\.safetensors)[^\n]{{0,40}}(?:missing|not found|does not exist)"
        r"|weights (?:were |are )?not initialized from (?:the )?checkpoint|[Nn]o (?:safetensors|model weights"
        r"|checkpoint files|\.safetensors)\b.{0,40}found"
        r"|does not appear to have a(?:ny)? files? named .{0,60}(?:\.bin|\.safetensors)|No weight files found"
        r"|[Nn]o file named .{0,60}safetensors"
        rf"|(?:[Ff]ile|[Pp]ath) [\"']?{_SHARD}[\"']? (?:does not exist|not found)|No files matching .*safetensors",
        _missing_summary,
        "The model's folder lacks weights that its index or its loader asks for: an incomplete download or the wrong "
        "folder.",
        _download,
    ),
    rule(
        "remote_code",
        r"trust[_-]remote[_-]code[=` ]*(?:True)?[^\n]{0,80}(?:to remove this error|option|argument|to allow)"
        r"|contains custom code which must be executed"
        r"|requires you to execute the (?:configuration|tokenizer|modeling|\w+) file|set the (?:option"
        r"|argument) `?trust_remote_code"
        r"|pass(?:ing)?(?: the argument)? `?trust_remote_code=True|requires `?trust_remote_code"
        r"|use `?--trust-remote-code|(?:Please|consider) (?:set|us|add)\w*.{0,20}trust.remote.code",
        "The model brings code of its own, which was not allowed to run",
        "Its configuration or tokenizer is Python code in the repository, and loading it needs consent.",
        "Read that code, then add --trust-remote-code to the command.",
    ),
    rule(
        "remote_code",
        r"EOFError: EOF when reading a line",
        "The model brings code of its own, which was not allowed to run",
        "Whether its code may run was asked on a terminal, and a server has none to answer on.",
        "Read that code, then add --trust-remote-code to the command.",
        frames=r"in resolve_trust_remote_code",
        on="block",
    ),
    rule(
        "model_not_found",
        r"Repo id must (?:be in the form|use alphanumeric)|is not a local folder and is not a valid model identifier"
        r"|RepositoryNotFoundError"
        r"|Repository Not Found|GatedRepo(?:Error)?|gated repo|Cannot access gated|RevisionNotFoundError"
        r"|Entry Not Found|EntryNotFoundError|LocalEntryNotFound"
        r"|HFValidationError|couldn't connect to '?https?://\S*huggingface|We couldn't connect to"
        r"|cannot find the requested files in the (?:local|disk) cache|OfflineModeIsEnabled"
        r"|Incorrect path_or_model_id|(?:401|403|404|429) Client Error[^\n]*huggingface"
        r"|Not Found for url: \S*modelscope|outgoing traffic has been disabled"
        r"|LocalEntryNotFoundError"
        r"|does not appear to have a file named config\.json|No such file or directory: '[^']*config\.json'"
        r"|model (?:path|directory) .{0,200}(?:does not exist|not found)"
        r"|Invalid repository ID or local directory|[Cc]an't load (?:the )?(?:config|configuration|tokenizer"
        r"|model|image processor|feature extractor) (?:for|of) '"
        r"|[Nn]o config file found|No supported config format found"
        r"|not a valid (?:model|repo) (?:id|identifier|name)|File Not Found for url"
        r"|Failed to (?:download|resolve|load) (?:the )?(?:model|config) from (?:hub|huggingface|ModelScope)"
        r"|Max retries exceeded with url: /\S+/(?:resolve|raw|tree)/|huggingface\.co'?, port=443"
        r"|Either ensure you have permission|make sure the path to the model directory"
        r"|The model .{0,120} does not exist\b(?!.*NotFoundError)",
        lambda case: (
            f"The model {_model(case)} was not found" if _model(case) != _UNNAMED else "The model was not found"
        ),
        "Neither a folder nor a hub repository (that this machine and token may read) has that name.",
        _find_model,
        needs=lambda case: (
            "preprocessor_config" not in case.found.string and "generation_config" not in case.found.string
        ),
    ),
)
