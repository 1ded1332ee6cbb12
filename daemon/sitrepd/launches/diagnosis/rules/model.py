"""What the model is: context, quantization, draft, architecture."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule, is_of_draft
from sitrepd.launches.diagnosis.rules import division
from sitrepd.launches.diagnosis.rules._make import rule

_UNFIT = (
    r"Attempted to load weight|size mismatch|shape mismatch|shapes? (?:of|do(?:es)?) .{0,60}not match"
    r"|The size of tensor a .* must match"
    r"|param_data\.shape == loaded_weight\.shape|loaded_weight\.shape|assert .*\.shape"
    r"|must match the (?:existing )?size|KeyError: |AssertionError"
    r"|has no attribute '(?P<attribute>\w+)'|Model architectures .* not supported|does not recognize this architecture"
    r"|CONFIG_MAPPING"
    r"|ValueError: |is not supported|mat1 and mat2 shapes|NotImplementedError|RuntimeError: .*(?:size|shape)"
    r"|Unrecognized (?:model|configuration)"
)


_UNKNOWN_TYPE = re.compile(
    r"does not recognize this architecture|has model type|architectures? .* not supported"
    r"|nsupported architectures?: \w+For"
)


_LENGTHS = re.compile(
    r"(?:context_length|max_model_len) \((?P<asked>\d+)\)\s+is\s+greater\s+than\s+the\s+derived\s+"
    r"(?:context_length|max_model_len)\s+\((?:[\w.]+=)?(?P<most>\d+)"
)


def _lengths(case: Case) -> tuple[str, str]:
    """What was asked for and the most there is, also where the message is wrapped."""
    found = _LENGTHS.search(case.text)
    return (found["asked"], found["most"]) if found else ("", "")


def _context_fix(case: Case) -> str:
    _, most = _lengths(case)
    of_vllm = case.known.is_vllm or "max_model_len (" in case.text
    flag = "--max-model-len" if of_vllm else case.known.flag("context")
    override = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1" if of_vllm else "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
    length = most or "no more than max_position_embeddings in its config.json"
    return (
        f"{flag} {length}{' or less' if most else ''}; or, if the model's rope scaling really allows more, {override}."
    )


def _context_summary(case: Case) -> str:
    asked, most = _lengths(case)
    if asked and most:
        return f"Context length {asked} is more than the model's {most}"
    return "The context length asked for is more than the model's"


def _is_of_loading(case: Case) -> bool:
    """Also where the draft's configuration could not even be read, which is before its weights are."""
    return case.stage == "load" or bool(_UNKNOWN_TYPE.search(case.text))


def _compares_sizes(case: Case) -> bool:
    """Whether code of the draft asserted that its sizes are those of the target, which only the statement says."""
    incident = case.incident
    return (
        incident.cause[1].startswith("AssertionError")
        and bool(incident.frames and incident.code)
        and is_of_draft(incident.frames[-1])
        and re.search(r"^assert .*(?:vocab|hidden_size|\.shape|num_\w*(?:heads|layers))", incident.code[-1]) is not None
    )


def _capability(digits: str) -> str:
    return f"{digits[:-1]}.{digits[-1]}"


def _too_old_cause(case: Case) -> str:
    least, has = case.word("least"), case.word("has")
    if not least:
        return "The kernels of this quantization need a newer GPU than this one."
    return (
        f"The kernels of this quantization need compute capability {_capability(least)}; this GPU has "
        f"{_capability(has)}."
    )


def _newer_gpu(case: Case) -> str:
    least = case.word("least")
    gpu = f"a GPU of compute capability {_capability(least)} or more" if least else "a newer GPU"
    return f"A checkpoint that is quantized otherwise, or not at all; or {gpu}."


RULES: tuple[Rule, ...] = (
    rule(
        "draft_model",
        r"Target model's context_length|draft model.{0,120}(?:context|hidden|vocab|architecture|not (?:match|supported"
        r"|found))"
        r"|(?:hidden.size|vocab\w*)[^\n]{0,80}draft|[Dd]raft.{0,60}(?:mismatch|incompatible|does not match|must match)"
        r"|hot_token_id|set_embed_and_head|'set_embed'|set_eagle3_layers_to_capture|get_embed_and_head"
        r"|speculative.{0,80}(?:is not supported (?:for|with) |requires a draft|draft.model.path)"
        r"|architectures? \[['\"][^\]]*(?:Eagle|EAGLE|DFlash|Medusa)\w*['\"]\] are not supported"
        r"|Unsupported draft model"
        r"|--speculative-draft-model-path (?:is|must)|does not support (?:eagle|EAGLE)|(?:EAGLE3?"
        r"|eagle3?) .{0,60}(?:not supported for|unsupported)|inherits? the target's",
        "The draft model does not fit the target",
        "Speculative decoding needs a draft trained for this very target (hidden size, vocabulary, architecture, back "
        "end).",
        "Use the EAGLE head made for {model} in --speculative-draft-model-path; where only the back end is at odds: "
        "--speculative-draft-attention-backend triton (or flashinfer); without: leave --speculative-* out.",
    ),
    rule(
        "draft_model",
        _UNFIT,
        "The draft model {draft} does not fit the target {model}",
        lambda case: f"Loading the draft's weights failed: {case.incident.cause[1][:200]}",
        "Use a draft trained for {model} (same hidden size, vocabulary and architecture) in "
        "--speculative-draft-model-path; to go on "
        "without: leave --speculative-* out.",
        on="block",
        needs=lambda case: (
            case.is_draft
            and (
                _is_of_loading(case)
                or _compares_sizes(case)
                or re.search(r"mat1 and mat2 shapes|'kv_lora_rank'", case.text) is not None
            )
            and not re.search(r"quantiz|safetensors", case.text)
        ),
    ),
    rule(
        "context_length",
        r"derived (?:context_length|max_model_len)|[Cc]ontext length .{0,40}(?:exceeds|greater than"
        r"|larger than) .{0,40}(?:model|max_position)"
        r"|context_length.{0,40}max_position_embeddings",
        _context_summary,
        "The length asked for is more than the model's configuration gives, which the engine refuses.",
        _context_fix,
    ),
    rule(
        "quantization",
        r"Quantization scheme is not supported for\W+the current GPU\."
        r"(?:\W+Min capability: (?P<least>\d{2,3})\.\W+Current capability: (?P<has>\d{2,3}))?",
        "The GPU is too old for the quantization of the checkpoint",
        _too_old_cause,
        _newer_gpu,
    ),
    rule(
        "quantization",
        r"Cannot find the config file for (?P<method>\w+)|[Qq]uantization method (?:specified|.{0,40}(?:not supported"
        r"|does not match|is not))|Unknown quantization|Invalid quantization"
        r"|quantization .{0,80}(?:is not supported|not supported (?:for|on|by)|does not support|is unsupported"
        r"|requires|only supports)|not supported for quantization|[Uu]nsupported quant"
        r"|input size is not aligned with the quantized weight shape|(?:divisible by|aligned with).{0,60}(?:quantiz"
        r"|block_[nk]|min_thread|group_size|weight_block)|min_thread_[nk]|Marlin"
        r"|weight (?:output|input)_(?:partition_)?size.{0,60}(?:is )?not divisible"
        r"|No compressed-tensors compatible scheme|Cannot find any of \[.*quant|quant_method|quantization_config"
        r"|ModelOpt\w*Config|(?:only supports|expects?) .{0,30}(?:FP8|fp8|FP4|NVFP4|INT4|int4|AWQ|GPTQ)|(?:FP8|FP4"
        r"|NVFP4|MXFP4|AWQ|GPTQ|INT8|fp8|mxfp4|awq|gptq)\b.{0,60}(?:not supported|unsupported|requires)"
        r"|Minimum capability: \d+\. Current capability: \d+|weight_bits|Can't load .{0,40}bitsandbytes"
        r"|Unsupported (?:bits|FP8|num_bits)|is not supported for the current GPU"
        r"|[Oo]nly (?:supports? )?(?:static |dynamic |symmetric )?(?:per-(?:tensor|channel|token|group)|block-?wise)"
        r" (?:\w+ )?(?:scales?|quantization)\b|[Oo]nly [^\n]{0,40}(?:group_size|num_bits|symmetric quantization)\b"
        r"[^\n]{0,60}supported",
        "The quantization does not fit the model or the GPU",
        lambda case: f"The quantized layers cannot be set up: {case.incident.cause[1][:220]}",
        "Leave --quantization out so that the model's own config.json decides (now {quantization}); a checkpoint "
        "quantized otherwise, or another "
        "{flag_tp}, where sizes do not divide.",
        needs=lambda case: not re.search(r"requires some operators|[Pp]lease install|No module named", case.text),
    ),
    rule(
        "quantization",
        r"^AssertionError",
        "The engine has no way to run these layers in the model's quantization",
        "A layer asked its quantization for a method and got none: often experts of a mixture in AWQ or GPTQ.",
        "A newer release, or a checkpoint quantized otherwise (now {quantization}); config.json names the method under "
        "quantization_config.",
        on="block",
        needs=lambda case: bool(case.incident.code) and case.incident.code[-1].startswith("assert self.quant_method"),
    ),
    rule(
        "quantization",
        r"Attempted to load weight \(torch\.Size\(\[\d+, 1\]\)\) into parameter",
        "The checkpoint holds packed 4-bit weights, and the layers were made for whole ones",
        lambda case: f"bitsandbytes packs a matrix into one column: {case.incident.cause[1][:200]}",
        "--quantization bitsandbytes --load-format bitsandbytes, where this model supports it; else a checkpoint "
        "quantized otherwise (AWQ, GPTQ, FP8).",
        on="block",
        needs=lambda case: not case.is_draft,
    ),
    rule(
        "quantization",
        r"KeyError: '[\w.]*(?:weight_scale|scale_inv|qweight|qzeros|g_idx|experts\.w\d+_)[\w.]*'",
        "The model has no place for the quantized weights of its checkpoint",
        lambda case: (
            f"A tensor of the checkpoint belongs to another quantization than the layer: {case.incident.cause[1][:200]}"
        ),
        "Leave --quantization out so that the model's own config.json decides (now {quantization}), and its "
        "quantization_config as it was published; or a release that knows this model in this quantization.",
        on="block",
        needs=lambda case: case.stage == "load",
    ),
    rule(
        division.category,
        r"Model architectures? .{0,160}(?:are|is) not supported|does not recognize this architecture"
        r"|has model type `?(?P<type>[\w-]+)|Unrecognized model in|[Uu]nsupported architectures?: \w+For\w+"
        r"|Unrecognized configuration class|Cannot find model module|No model architectures are specified",
        "This release does not know the model's architecture",
        "The model's config names an architecture or a model type that the installed engine or transformers lacks.",
        "Upgrade the engine and transformers to a release that lists this model (pip install -U sglang transformers).",
    ),
)

_REFUSED = re.compile(r"(?:ValueError|NotImplementedError|AssertionError|RuntimeError|IndexError|AttributeError)\b")
_OF_QUANTIZATION = re.compile(r"(?:layers|model_executor)/(?:\w+/)*quantization/")


def _breaks_in_quantization(case: Case) -> bool:
    """Whether the code that sets up quantized layers refused, for a reason of its own, while the model was loaded."""
    ours = [frame for frame in case.incident.frames if "/torch/" not in frame]
    return case.stage == "load" and bool(ours) and _OF_QUANTIZATION.search(ours[-1]) is not None


PLACES: tuple[Rule, ...] = (
    rule(
        "quantization",
        _REFUSED.pattern,
        lambda case: f"The quantized layers cannot be set up: {case.incident.cause[1][:160]}",
        lambda case: f"Code of the quantization refused the layer or its weights: {case.incident.cause[1][:220]}",
        "Another tensor-parallel size where a size does not divide; else a checkpoint quantized otherwise (now "
        "{quantization}), or a release that knows this model in this quantization.",
        on="block",
        needs=_breaks_in_quantization,
        standing="follows",
    ),
)
