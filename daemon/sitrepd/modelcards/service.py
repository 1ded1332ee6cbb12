"""What can be done with model cards: make one of a folder, and say what fits beside what an engine reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from sitrepd import facts
from sitrepd.errors import InvalidFact
from sitrepd.facts import Scope
from sitrepd.modelcards.card import Card
from sitrepd.modelcards.fit import KV_BYTES, Asked, Fit, Reported, Why, fit, kv_type, why
from sitrepd.modelcards.models import Model, ModelCreate
from sitrepd.storage import ids

_USUAL_FRACTION = 0.88


@dataclass(frozen=True)
class Fitted:
    """The answer, and what it was computed from."""

    asked: Asked
    fit: Fit
    reported: int | None = None
    why: Sequence[Why] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Wanted:
    """What the caller says; what is left out comes from the launch."""

    launch: str | None = None
    tp: int | None = None
    fraction: float | None = None
    free_bytes: int | None = None
    kv_type: str | None = None
    draft: str | None = None


def store(db: Session, scope: Scope, card: Card) -> tuple[Model, bool]:
    """The card of this folder in the session, and whether it is new; a folder that has changed changes its card."""
    noun = scope.registry.by_word["model"]
    same = select(Model).where(col(Model.path) == card.path, col(Model.session_id) == scope.session_id)
    row = db.exec(same.order_by(col(Model.id).desc())).first()
    told = {
        "path": card.path, "name": card.name, "config": card.config, "details": card.details,
        "weight_bytes": card.weight_bytes, "parameters": card.parameters, "active_parameters": card.active_parameters,
        "quantization": card.quantization, "kv_bytes_per_token": card.kv_bytes_per_token,
    }  # fmt: skip
    known = {name: value for name, value in told.items() if value is not None}
    if row is None:
        row = facts.tell(db, noun, ModelCreate.model_validate(known), scope)
    elif row.digest == card.digest:
        return row, False
    else:
        # What an earlier card said goes with it; what was only told stays where this one says nothing.
        changed = told if row.digest else known
        if row.name:
            changed.pop("name")
        facts.update(db, noun, row, noun.update.model_validate(changed), scope)
    made: Model = row
    made.digest = card.digest
    db.add(made)
    return made, True


def fitted(db: Session, scope: Scope, row: Model, wanted: Wanted) -> Fitted:
    """Tokens of KV cache of one GPU; with a launch, by its settings, and beside what it reported."""
    details = _details(row)
    launch = facts.get(db, scope.registry.by_word["launch"], wanted.launch) if wanted.launch else None
    settings: Mapping[str, Any] = (launch.settings or {}) if launch is not None else {}
    sizes = _sizes(db, scope, launch) if launch is not None else {}
    free = wanted.free_bytes or sizes.get(("free_bytes", "target"))
    if free is None:
        raise InvalidFact(
            "Say how much memory of one GPU is free before the model is loaded; no launch that was named tells it.",
            errors=[{"field": "free_bytes", "message": "bytes"}],
        )
    notes = []
    fraction = wanted.fraction or settings.get("mem_fraction_static")
    if fraction is None:
        fraction = _USUAL_FRACTION
        notes.append(f"No memory fraction was told: {_USUAL_FRACTION} is taken.")
    kind = wanted.kv_type or kv_type(settings.get("kv_cache_dtype"), details.get("dtype"))
    if kind not in KV_BYTES:
        raise InvalidFact(f"{kind!r} is no KV type; there are {', '.join(KV_BYTES)}.")
    asked = Asked(free, float(fraction), wanted.tp or settings.get("tp_size") or 1, kind)
    draft = _draft(db, scope, wanted.draft or settings.get("speculative_draft_model_path"), notes)
    if row.weight_bytes is None:
        raise InvalidFact(f"The bytes of the weights of {ids.public_id('M', row.id or 0)} are not known.")
    found = fit(details, row.weight_bytes, asked, draft)
    if found.room_bytes <= 0:
        notes.append("The weights alone take more than that share of the memory.")
    told = _reported(sizes)
    return Fitted(asked, found, told.tokens if told else None, why(found, told) if told else (), notes)


def _details(row: Model) -> Mapping[str, Any]:
    if not (row.details or {}).get("kv"):
        raise InvalidFact(
            f"{ids.public_id('M', row.id or 0)} does not say what its KV cache holds: make its card from its folder "
            f"with `sitrep model card DIR`."
        )
    return row.details or {}


def _draft(db: Session, scope: Scope, told: str | None, notes: list[str]) -> Mapping[str, Any] | None:
    """The card of a draft by its id or folder."""
    if not told:
        return None
    parsed = ids.parse_id(told)
    if parsed is not None and parsed[0] == "M":
        return _details(facts.get(db, scope.registry.by_word["model"], told))
    query = select(Model).where(col(Model.path) == told).order_by(col(Model.id).desc())
    row = db.exec(query).first()
    if row is None or not row.details:
        notes.append(f"The draft {told} has no card, so its weights and its KV cache are not counted.")
        return None
    return row.details


def _sizes(db: Session, scope: Scope, launch: Any) -> dict[tuple[str, str], int]:
    """What the first rank of a launch printed, by name and role."""
    noun = scope.registry.by_word["launch"]
    told = facts.publish_one(db, scope.registry, noun, launch)
    found: dict[tuple[str, str], int] = {}
    for one in told.sizes:
        if one["rank"] in ("", "0", "TP0"):
            found[(one["name"], one["role"])] = one["value"]
    return found


def _reported(sizes: Mapping[tuple[str, str], int]) -> Reported | None:
    tokens = sizes.get(("max_total_num_tokens", "")) or sizes.get(("kv_tokens", "target"))
    if not tokens:
        return None
    return Reported(
        tokens,
        sizes.get(("weight_bytes", "target")), sizes.get(("weight_bytes", "draft")),
        sizes.get(("kv_cache_bytes", "target")), sizes.get(("kv_cache_bytes", "draft")),
    )  # fmt: skip
