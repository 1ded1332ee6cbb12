"""Whether the model and its draft are where the command says, and whole."""

from __future__ import annotations

from collections.abc import Iterable

from sitrepd.launches.check.folder import INDEX, Folder, Folders, cache, find, looks_like_a_path
from sitrepd.launches.check.model import Check, Look, Subject, gib
from sitrepd.launches.engines._flags import text

_SHOWN = 4


def check_model(subject: Subject, look: Look) -> Iterable[Check]:
    if subject.is_server and subject.facts.model_path:
        load_format = text(subject.facts.flags, "load_format")
        yield from about_model("model", subject.facts.model_path, subject, look.folders, load_format)


def check_draft_model(subject: Subject, look: Look) -> Iterable[Check]:
    facts = subject.facts
    if subject.is_server and facts.draft_model_path and facts.draft_model_path != facts.model_path:
        load_format = text(facts.flags, "speculative_draft_load_format", "load_format")
        yield from about_model("draft_model", facts.draft_model_path, subject, look.folders, load_format)


def about_model(name: str, told: str, subject: Subject, folders: Folders, load_format: str | None) -> Iterable[Check]:
    if "$" in told or "://" in told:
        return
    word = "model" if name == "model" else "draft model"
    path = find(told, subject.cwd, subject.env)
    if path is None:
        yield _nowhere(name, word, told, subject)
        return
    yield from about_folder(name, word, folders.read(path), load_format)


def _nowhere(name: str, word: str, told: str, subject: Subject) -> Check:
    if looks_like_a_path(told) or told.count("/") != 1:
        return Check(name=name, level="error", text=f"The {word} {told} is no folder on this host.")
    offline = subject.env.get("HF_HUB_OFFLINE", "0").lower() in ("1", "true", "yes", "on")
    where = cache(subject.env)
    if offline:
        text = f"The {word} {told} is not in the hub's cache ({where}), and HF_HUB_OFFLINE forbids to fetch it."
        return Check(name=name, level="error", text=text)
    return Check(
        name=name, level="note", text=f"The {word} {told} is not in the hub's cache ({where}): it is fetched first."
    )


def about_folder(name: str, word: str, folder: Folder, load_format: str | None) -> Iterable[Check]:
    if folder.config is None:
        yield Check(name=name, level="error", text=f"The {word} {folder.path} has no config.json that can be read.")
        return
    if load_format == "dummy":
        yield Check(name=name, level="ok", text=f"The {word} {folder.path} is there; its weights are made up.")
        return
    bad = {shard: one.problem for shard, one in folder.shards.items() if one.problem}
    if bad:
        shown = "; ".join(f"{shard} {problem}" for shard, problem in list(bad.items())[:_SHOWN])
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        silent = (
            f" {INDEX} names them; SGLang up to 0.5.16 starts without a missing one, with random weights in its place."
        )
        yield Check(
            name=name, level="error", fix="Copy or download these files again.",
            text=f"{len(bad)} of {len(folder.shards)} shards of {folder.path} are not whole: {shown}{more}."
            + (silent if folder.indexed and "is missing" in bad.values() else ""),
        )  # fmt: skip
    elif folder.promised_bytes and folder.weight_bytes < folder.promised_bytes:
        lacking = folder.promised_bytes - folder.weight_bytes
        text = f"The shards of {folder.path} hold {lacking} bytes less than the {folder.promised_bytes} of {INDEX}."
        yield Check(name=name, level="warning", text=text, fix="Compare the folder with where it came from.")
    elif folder.shards:
        text = f"The {word} {folder.path} is whole: {len(folder.shards)} shards, {gib(folder.weight_bytes)}."
        yield Check(name=name, level="ok", text=text)
    elif not _others(folder):
        yield Check(name=name, level="error", text=f"{folder.path} holds no weights.")


def _others(folder: Folder) -> bool:
    return any(next(folder.path.glob(pattern), None) for pattern in ("*.bin", "*.pt", "*.gguf", "*.pth"))
