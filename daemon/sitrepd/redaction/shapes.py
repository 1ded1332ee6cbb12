"""Secrets that are known by their own shape: the tokens of providers, headers, passwords in addresses, key blocks.

Rules of our own, since `detect-secrets` 1.5 knows no key of Hugging Face, Anthropic, Google or W&B, reads neither
options nor headers, and takes 30 ms for one line of server arguments.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Shape(NamedTuple):
    """A pattern whose matches begin with one of `triggers` (lower case), and its group `secret`, or all of it."""

    name: str
    triggers: tuple[str, ...]
    pattern: re.Pattern[str]


def _shape(name: str, triggers: str, pattern: str, flags: int = 0) -> Shape:
    return Shape(name, tuple(triggers.split("|")), re.compile(pattern, flags))


SCHEME = r"(?:bearer|basic|token|apikey|digest|negotiate)"
_HEADER = r"authorization\\*[\"']?\s*[:=]\s*\\*[\"']?"
_HEADER_VALUE = r"\s+(?P<secret>[^\s\"'\\,;]{3,})"
_KEY_BLOCK = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
_START = r"(?<![\w-])"  # of a token whose alphabet has "-"
_EDGE = r"(?<![A-Za-z0-9])"

SHAPES = (
    _shape("PRIVATE_KEY", "-----begin ", rf"-----BEGIN {_KEY_BLOCK}.*?(?:-----END {_KEY_BLOCK}|\Z)", re.DOTALL),
    _shape("HF_TOKEN", "hf_|api_org_", _EDGE + r"(?:hf|api_org)_[A-Za-z0-9]{20,}"),
    _shape("ANTHROPIC_API_KEY", "sk-ant-", _START + r"sk-ant-[\w-]{16,}"),
    _shape("OPENROUTER_API_KEY", "sk-or-", _START + r"sk-or-[\w-]{16,}"),
    _shape("OPENAI_API_KEY", "sk-", _START + r"sk-(?:proj|svcacct|admin|None)-[\w-]{16,}"),
    _shape("OPENAI_API_KEY", "sk-", _START + r"sk-(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}"),
    _shape("AWS_ACCESS_KEY_ID", "akia|asia", _EDGE + r"A(?:K|S)IA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("GITHUB_TOKEN", "ghp_|gho_|ghu_|ghs_|ghr_", _EDGE + r"gh[pousr]_[A-Za-z0-9]{30,}"),
    _shape("GITHUB_TOKEN", "github_pat_", _EDGE + r"github_pat_\w{22,}"),
    _shape("GITLAB_TOKEN", "glpat-", _START + r"glpat-[\w-]{20,}"),
    _shape("GOOGLE_API_KEY", "aiza", _START + r"AIza[\w-]{35}"),
    _shape("GOOGLE_TOKEN", "ya29.|gocspx-", _START + r"(?:ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,})"),
    _shape("SLACK_TOKEN", "xox|xapp-", _START + r"(?:xox[abeoprs](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{10,})"),
    _shape("SLACK_WEBHOOK", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows)/(?P<secret>[\w/]{20,})"),
    _shape("NVIDIA_API_KEY", "nvapi-", _START + r"nvapi-[\w-]{20,}"),
    _shape("WANDB_API_KEY", "wandb_v", _START + r"wandb_v\d_\w{20,}"),
    _shape("WANDB_API_KEY", "wandb login", r"wandb login(?:\s+--[\w=.:/-]+)*\s+(?P<secret>[0-9a-f]{40})\b"),
    _shape("STRIPE_KEY", "sk_live_|sk_test_|rk_live_|rk_test_", _EDGE + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("NPM_TOKEN", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}"),
    _shape("PYPI_TOKEN", "pypi-ag", _START + r"pypi-Ag[\w-]{50,}"),
    _shape("AGE_SECRET_KEY", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _shape("JWT", "eyj", _START + r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _shape("SIGNATURE", "?sig=|&sig=|-signature=", r"[?&-](?:sig|signature)=(?P<secret>[\w%+/=-]{20,})", re.IGNORECASE),
    _shape("BEARER_TOKEN", "authorization", _HEADER + "bearer" + _HEADER_VALUE, re.IGNORECASE),
    _shape("BEARER_TOKEN", "bearer", r"\bbearer\s+(?P<secret>(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{8,}=*)", re.IGNORECASE),
    _shape("AUTHORIZATION", "authorization", _HEADER + SCHEME + _HEADER_VALUE, re.IGNORECASE),
    _shape("COOKIE", "cookie:", r"\bcookie:\s*(?P<secret>[^\s\"'=]+=[^\r\n\"']{8,})", re.IGNORECASE),
    _shape("URL_PASSWORD", "://", r"://[^\s/?#:@\"'<>]*:(?P<secret>[^\s/@\"'<>]+)@(?=[\w\[])"),
    _shape("URL_TOKEN", "://", r"://(?P<secret>(?=[\w.~-]{0,200}\d)[\w.~-]{20,})@(?=[\w\[])"),
    _shape("SSHPASS", "sshpass ", r"sshpass\s+(?:-[ev]\s+)*-p\s*[\"']?(?P<secret>[^\s\"']+)"),
    _shape("MYSQL_PWD", "mysql", r"mysql(?:dump|admin)?\b[^\n;|]{0,200}?\s-p[\"']?(?P<secret>[^\s\"']+)"),
    _shape("PASSWORD", "login ", r"\blogin\s+\S+\s+password\s+(?P<secret>\S+)"),  # .netrc
    _shape(
        "PASSWORD",
        "curl ",
        r"\bcurl\b[^\n;|]{0,500}?\s(?:-u|--(?:proxy-)?user)[\s=]+[\"']?[^\s:\"']+:(?P<secret>[^\s\"']+)",
    ),
)
