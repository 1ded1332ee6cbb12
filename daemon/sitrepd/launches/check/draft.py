"""Whether the draft fits the target: hidden size and vocabulary, from their config.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sitrepd.launches.check.folder import find
from sitrepd.launches.check.model import Check, Look, Subject

_OWN_DRAFT = ("deepseek", "glm4moe", "mimo", "ernie4_5", "longcat", "qwen3next", "bailing", "step3", "exaone")


def check_draft(subject: Subject, _: Look) -> Iterable[Check]:
    facts = subject.facts
    algorithm = str(facts.speculative.get("speculative_algorithm") or "").upper()
    if not subject.is_server or algorithm not in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        return
    target = config_of(facts.model_path, subject)
    if facts.draft_model_path is None:
        yield from _no_draft(algorithm, target)
        return
    draft = config_of(facts.draft_model_path, subject)
    if target is not None and draft is not None:
        yield from compared(algorithm, target, draft)


def config_of(told: str | None, subject: Subject) -> dict[str, Any] | None:
    path = find(told, subject.cwd, subject.env) if told else None
    try:
        config = json.loads((path / "config.json").read_bytes()) if path else None
    except (OSError, ValueError):
        return None
    return config if isinstance(config, dict) else None


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The language model's own part of the config of a model that also sees."""
    for name in ("text_config", "language_config", "llm_config"):
        if isinstance(config.get(name), dict):
            return dict(config[name])
    return config


def architecture(config: Mapping[str, Any]) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else ""


def _no_draft(algorithm: str, target: Mapping[str, Any] | None) -> Iterable[Check]:
    if target is None:
        return
    name = architecture(target)
    has_own = any(part in name.lower() for part in _OWN_DRAFT) or "num_nextn_predict_layers" in text_part(target)
    if not has_own:
        text = (
            f"--speculative-algorithm {algorithm} wants a draft, and {name or 'this model'} is not known to carry one."
        )
        yield Check(name="draft", level="warning", text=text, fix="Add --speculative-draft-model-path DRAFT.")


def compared(algorithm: str, target: Mapping[str, Any], draft: Mapping[str, Any]) -> Iterable[Check]:
    """Both as config.json has them."""
    big, small = text_part(target), text_part(draft)
    wants = small.get("target_hidden_size") or small.get("hidden_size")
    faults = []
    if algorithm != "STANDALONE" and wants and big.get("hidden_size") and wants != big["hidden_size"]:
        text = f"The draft is made for a target of hidden size {wants}; this target has {big['hidden_size']}."
        faults.append(
            Check(name="draft", level="error", text=text, fix="Take the draft that was trained for this target.")
        )
    if small.get("vocab_size") and big.get("vocab_size") and small["vocab_size"] != big["vocab_size"]:
        text = f"The draft has a vocabulary of {small['vocab_size']} tokens; the target has {big['vocab_size']}."
        faults.append(
            Check(name="draft", level="error", text=text, fix="Take the draft that was trained for this target.")
        )
    is_third = "eagle3" in architecture(draft).lower()
    if is_third and algorithm in ("EAGLE", "NEXTN"):
        text = f"The draft is an EAGLE-3 draft ({architecture(draft)}), but the algorithm is {algorithm}."
        faults.append(Check(name="draft", level="warning", text=text, fix="Write --speculative-algorithm EAGLE3."))
    yield from faults or [Check(name="draft", level="ok", text="The draft fits the target.")]
