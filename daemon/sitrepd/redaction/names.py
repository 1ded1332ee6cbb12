"""Which names hold secrets, and which values of such names are none."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class Strength(IntEnum):
    """How much a name alone says: `WEAK` needs a value that looks random, `STRONG` any value at all."""

    NONE = 0
    WEAK = 1
    TOKEN = 2
    STRONG = 3


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NOT_WORD = re.compile(r"[^A-Za-z0-9]+")
_STRONG = re.compile(
    r"(?:passw(?:or[dt]|d)|passphrase|passcode|sshpass|secret|credentials?|authorization|cookie|api_?key"
    r"|_pass|_pwd"
    r"|(?:^|_)(?:access|account|admin|app|application|auth|client|consumer|db|deploy|encryption|hmac|jwt|license|master"
    r"|private|root|secret|service|session|shared|signing|storage|subscription|webhook|watermark"
    r"|anthropic|azure|cohere|gemini|github|google|groq|hf|huggingface|mistral|ngc|nvidia|openai|openrouter|wandb)_?key"
    r"|rediscli_auth|(?:github|gitlab|azure|devops)_pat)(?:_?(?:b|b64|base64|id|json|value|\d+))?$"
)
_PERHAPS = re.compile(r"[A-Z0-9_]*(?:_KEY|_PAT|^PAT)|_?auth|--auth")
_OPEN = _words("gpg public pub cache host routing sort partition primary foreign registry ssh known sign verify map")
_TOKEN_OWNERS = _words(
    "access admin api app auth azure bearer bot ci cloudflare csrf deploy discord docker face gh github gitlab hf hub "
    "huggingface id identity job jwt npm oauth openai personal private pypi read refresh registry secret security "
    "service session sitrep slack telegram upload user vault wandb webhook write xsrf"
)
_TOKEN_NOUNS = _words(
    "accepted added audio begin bos cached class cls decode detok draft each end eod eos eot first full gen "
    "generated generation image input inter invalid last mask max min mm new next no num one output pad pending per "
    "placeholder prefill prompt reasoning replay sep separator special start stop swa target tail think "
    "unexpected unk unknown verify video vision"
)
_PLURAL = re.compile(r"(?:keys|passwords|secrets|tokens)$")

_LITERAL = re.compile(
    r"(?:none|null|nil|true|false|yes|no|on|off|empty|undefined|unset|redacted|masked|hidden|\d|[\W_]*"
    r"|<[^>]*>|\[[^\]]*\]|(?:your|my)[-_ ].*|x{3,})",
    re.IGNORECASE | re.DOTALL,
)
_REFERENCE = re.compile(r"\$\{[A-Za-z_]\w*\}")
_USAGE = re.compile(r"(?:[A-Z]+_)?(?:TOKEN|KEY|SECRET|PASSWORD)")  # `Bearer TOKEN`, `--api-key API_KEY`
_SHELL_REFERENCE = re.compile(r"\$[A-Za-z_]\w*|\$\(.*|`.*|\{\{.*|%\(\w+\)s|%\w+%", re.DOTALL)
_CODE = re.compile(r"(?:[a-z_][a-z_0-9]*\.)+[a-z_]+")
_PATH = re.compile(
    r"(?:~|\.{1,2})/.*|/[a-z][a-z0-9._-]*(?:/[a-z0-9._@-]+)+/?|\S+\.(?:pem|key|crt|json|ya?ml|toml|txt|env)"
)
_NUMBER = re.compile(r"[-+]?[\d.,]+(?:e[-+]?\d+)?%?")
_PROSE = _words(
    "a accepted again already an and any are argument as at be been before but by can cannot changed check "
    "configured deprecated does environment error exists expected expired failed flag flags for found from given has "
    "header here if in incorrect instead invalid is it its malformed match may mismatch missing must needed needs "
    "never not of omitted option optional or parameter present provided received refused rejected required revoked "
    "set should so that the then this to too unless unauthorized unknown unsupported use used value variable via was "
    "were when where which while will with without wrong you your"
)


@lru_cache(maxsize=8192)
def name_strength(name: str) -> Strength:
    """How secret the value of `name` is: an environment variable, option with its dashes, header or JSON key."""
    words = _snake(name)
    if _STRONG.search(words):
        return Strength.STRONG
    *before, last = words.split("_")
    if not last.endswith("token"):
        perhaps = _PERHAPS.fullmatch(name) is not None and not _OPEN.intersection(before)
        return Strength.WEAK if perhaps else Strength.NONE
    if last != "token":
        return Strength.TOKEN if last[: -len("token")] in _TOKEN_OWNERS else Strength.NONE
    if before and before[-1] in _TOKEN_NOUNS:
        return Strength.NONE
    owned = bool(before) and (before[-1] in _TOKEN_OWNERS or name.isupper())
    return Strength.TOKEN if owned or is_option(name) else Strength.WEAK


def is_secret_name(name: str) -> bool:
    """Whether the value of `name` is to be kept out of the store whatever it looks like."""
    return name_strength(name) >= Strength.TOKEN


@lru_cache(maxsize=8192)
def is_plural_secret_name(name: str) -> bool:
    """Whether `name` is a list of secrets, as `api_keys` is; counts such as `max_tokens` are numbers and stay."""
    return bool(_PLURAL.search(_snake(name))) and is_secret_name(name[:-1])


def is_option(argument: str) -> bool:
    """Whether it begins as a long option does: `--api-key`, but not a rule of dashes."""
    return argument.startswith("--") and argument[2:3].isalpha()


def reference_name(name: str) -> str:
    """The environment variable that stands for the value of `name`: `--admin-api-key` gives `ADMIN_API_KEY`."""
    upper = _snake(name).upper()
    return f"SECRET_{upper}" if upper[:1].isdigit() or not upper else upper


def has_reference(value: str) -> bool:
    """Whether `value` already holds a `${NAME}`."""
    return _REFERENCE.search(value) is not None


def is_placeholder(value: str) -> bool:
    """Whether `value` stands for a secret without being one: empty, None, REDACTED, `<your key>`, `${NAME}`, `***`."""
    value = value.strip("'\"")
    return (
        _LITERAL.fullmatch(value) is not None
        or _USAGE.fullmatch(value) is not None
        or has_reference(value)
        or _SHELL_REFERENCE.fullmatch(value) is not None
        or "***" in value
        or "..." in value
    )


def is_secret_value(value: str, strength: Strength, *, told: bool) -> bool:
    """Whether `value` of a name of that strength is secret; `told` where its place leaves no doubt."""
    if not strength or is_placeholder(value) or _PATH.fullmatch(value):
        return False
    if strength is Strength.STRONG:
        return told or not (value.lower().rstrip(".:!?") in _PROSE or _CODE.fullmatch(value))
    if _NUMBER.fullmatch(value):
        return False
    if strength is Strength.TOKEN:
        return told or (value.lower().rstrip(".:!?") not in _PROSE and not _CODE.fullmatch(value))
    return looks_random(value)


def looks_random(value: str) -> bool:
    """Whether `value` has 16 characters or more of one alphabet of tokens, letters and digits mixed."""
    return (
        len(value) >= 16
        and re.fullmatch(r"[\w.~+/=-]+", value) is not None
        and any(c.isdigit() for c in value)
        and any(c.isalpha() for c in value)
        and not _CODE.fullmatch(value)
    )


def _snake(name: str) -> str:
    return _NOT_WORD.sub("_", _CAMEL.sub("_", name)).strip("_").lower()
