"""Secrets that are known by their own shape: the tokens of providers, headers, passwords in addresses, key blocks.

Rules of our own: on the corpus in tests/redaction, `detect-secrets` 1.5.0 finds 33 % of 529 secrets and takes 15 of 330
harmless texts for one; it knows neither options nor headers, and reads 0.2 MB/s, a sixtieth of what these rules do.
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
# An "@" in a password is not always escaped: the last one before the path ends it.
_BEFORE_HOST = r"://[^\s/?#:@\"'<>]*:(?P<secret>[^\s/@\"'<>]+(?:@[^\s/@\"'<>,;?&=]+)*)@(?=[\w\[])"
_IN_OTHER_TONGUES = (
    r"(?:kennwort|mot de passe|contraseña|senha|пароль|密码|口令|密钥|パスワード|비밀번호)"
    r"\s*(?:[:=：]|\b(?:ist|lautet|est|es|é)\b:?|是|为|は|는)\s*[\"'“「]?(?P<secret>(?=[!-~]{0,60}\d)[!-&(-+\--:<-~]{6,})"
)

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
    _shape(
        "GITLAB_TOKEN",
        "glpat-|gldt-|glrt-|glcbt-|glptt-",
        _START + r"gl(?:pat|dt|rt|cbt|ptt)-[\w.-]{20,}",
    ),
    _shape("GITLAB_TOKEN", "gr1348941", _EDGE + r"GR1348941[\w-]{20,}"),
    _shape("GOOGLE_API_KEY", "aiza", _START + r"AIza[\w-]{35}"),
    _shape("GOOGLE_TOKEN", "ya29.|gocspx-", _START + r"(?:ya29\.[\w.-]{20,}|GOCSPX-[\w-]{20,})"),
    _shape("SLACK_TOKEN", "xox|xapp-", _START + r"(?:xox[abeoprs](?:\.xox[a-z])?-[\w-]{10,}|xapp-\d-[\w-]{10,})"),
    _shape(
        "SLACK_WEBHOOK", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/]{20,})"
    ),
    _shape("DISCORD_WEBHOOK", "/webhooks/", r"/webhooks/\d{15,}/(?P<secret>[\w-]{16,})"),
    _shape("NVIDIA_API_KEY", "nvapi-", _START + r"nvapi-[\w-]{20,}"),
    _shape("WANDB_API_KEY", "wandb_v", _START + r"wandb_v\d_\w{20,}"),
    _shape("WANDB_API_KEY", "wandb login", r"wandb login(?:\s+--[\w=.:/-]+)*\s+(?P<secret>[0-9a-f]{40})\b"),
    _shape(
        "WANDB_API_KEY",
        "wandb",
        r"wandb(?:: logging in with key |\.login\([^)\n]{0,80}?key=[\"']?)(?P<secret>[\w-]{16,})",
        re.I,
    ),
    _shape("STRIPE_KEY", "sk_live_|sk_test_|rk_live_|rk_test_", _EDGE + r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _shape("STRIPE_WEBHOOK_SECRET", "whsec_", _EDGE + r"whsec_[A-Za-z0-9]{24,}"),
    _shape("NPM_TOKEN", "npm_", _EDGE + r"npm_[A-Za-z0-9]{36}"),
    _shape("PYPI_TOKEN", "pypi-ag", _START + r"pypi-Ag[\w-]{50,}"),
    _shape("DOCKER_TOKEN", "dckr_", _EDGE + r"dckr_(?:pat|oat)_[\w-]{20,}"),
    _shape("DIGITALOCEAN_TOKEN", "dop_v1_|doo_v1_|dor_v1_", _EDGE + r"do[opr]_v1_[0-9a-f]{64}"),
    _shape("DATABRICKS_TOKEN", "dapi", _EDGE + r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _shape("SENDGRID_API_KEY", "sg.", _EDGE + r"SG\.[\w-]{16,32}\.[\w-]{32,}"),
    _shape("REPLICATE_API_TOKEN", "r8_", _EDGE + r"r8_[A-Za-z0-9]{37}"),
    _shape("GROQ_API_KEY", "gsk_", _EDGE + r"gsk_[A-Za-z0-9]{40,}"),
    _shape("PERPLEXITY_API_KEY", "pplx-", _START + r"pplx-[A-Za-z0-9]{40,}"),
    _shape("XAI_API_KEY", "xai-", _START + r"xai-[A-Za-z0-9]{60,}"),
    _shape("LANGSMITH_API_KEY", "lsv2_", _EDGE + r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    _shape("PINECONE_API_KEY", "pcsk_", _EDGE + r"pcsk_\w{40,}"),
    _shape("SUPABASE_TOKEN", "sbp_", _EDGE + r"sbp_[0-9a-f]{40}"),
    _shape("VAULT_TOKEN", "hv", _START + r"hv[sbr]\.[\w-]{24,}"),
    _shape("SHOPIFY_TOKEN", "shp", _EDGE + r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _shape("LINEAR_API_KEY", "lin_api_", _EDGE + r"lin_api_[A-Za-z0-9]{40}"),
    _shape("NOTION_TOKEN", "ntn_", _EDGE + r"ntn_[A-Za-z0-9]{40,}"),
    _shape("FIREWORKS_API_KEY", "fw_", _EDGE + r"fw_(?=[A-Za-z]*\d)[A-Za-z0-9]{24}(?!\w)"),
    _shape("RUNPOD_API_KEY", "rpa_", _EDGE + r"rpa_[A-Z0-9]{40,}"),
    _shape("NEW_RELIC_KEY", "nrak-", _START + r"NRAK-[A-Z0-9]{27}"),
    _shape("SENTRY_TOKEN", "sntry", _EDGE + r"sntry[su]_[\w+/=-]{40,}"),
    _shape("GRAFANA_TOKEN", "glsa_|glc_", _EDGE + r"(?:glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}|glc_[A-Za-z0-9+/=]{40,})"),
    _shape("AZURE_CLIENT_SECRET", "q~", r"(?<=[\w~.-]{3}\d)Q~[\w~.-]{31,34}(?![\w~.-])"),
    _shape("ATLASSIAN_TOKEN", "atatt3", _EDGE + r"ATATT3[\w=-]{50,}"),
    _shape("FIGMA_TOKEN", "figd_", _START + r"figd_[\w-]{36,}"),
    _shape("HEROKU_API_KEY", "hrku-", _START + r"HRKU-[\w-]{36,}"),
    _shape("POSTMAN_API_KEY", "pmak-", _START + r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _shape("MAILGUN_API_KEY", "key-", _START + r"key-[0-9a-f]{32}(?!\w)"),
    _shape("TELEGRAM_TOKEN", ":aa", r"(?<=\d{8}):(?P<secret>AA[\w-]{33})(?![\w-])"),
    _shape("AGE_SECRET_KEY", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{50,}"),
    _shape("JWT", "eyj", _START + r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    _shape("SIGNATURE", "?sig=|&sig=|-signature=", r"[?&-](?:sig|signature)=(?P<secret>[\w%+/=-]{16,})", re.IGNORECASE),
    _shape("URL_KEY", "?key=|&key=", r"[?&]key=(?P<secret>(?=[\w.~-]{0,200}\d)[\w.~-]{16,})", re.IGNORECASE),
    _shape("BEARER_TOKEN", "authorization", _HEADER + "bearer" + _HEADER_VALUE, re.IGNORECASE),
    _shape("BEARER_TOKEN", "bearer", r"\bbearer\s+(?P<secret>(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{8,}=*)", re.IGNORECASE),
    _shape("AUTHORIZATION", "authorization", _HEADER + SCHEME + _HEADER_VALUE, re.IGNORECASE),
    _shape("COOKIE", "cookie:", r"\bcookie:\s*(?P<secret>[^\s\"'=]+=[^\r\n\"']{8,})", re.IGNORECASE),
    _shape("URL_PASSWORD", "://", _BEFORE_HOST),
    _shape("URL_TOKEN", "://", r"://(?P<secret>(?=[\w.~-]{0,200}\d)[\w.~-]{20,})@(?=[\w\[])"),
    _shape("SSHPASS", "sshpass ", r"sshpass\s+(?:-[ev]\s+)*-p\s*[\"']?(?P<secret>[^\s\"']+)"),
    _shape("MYSQL_PWD", "mysql", r"mysql(?:dump|admin)?\b[^\n;|]{0,200}?\s-p[\"']?(?P<secret>[^\s\"']+)"),
    _shape("PASSWORD", "login ", r"\blogin\s+\S+\s+password\s+(?P<secret>\S+)"),  # .netrc
    _shape("DOCKER_PASSWORD", "docker login", r"docker login\b[^\n;|]{0,200}?\s-p[\s=]*[\"']?(?P<secret>[^\s\"']+)"),
    _shape("REDISCLI_AUTH", "redis-cli", r"redis-cli\b[^\n;|]{0,200}?\s(?:-a|--pass)[\s=]+[\"']?(?P<secret>[^\s\"']+)"),
    _shape("PASSWORD", "mongo", r"mongo(?:sh|dump|restore)?\b[^\n;|]{0,200}?\s-p[\s=]+[\"']?(?P<secret>[^\s\"']+)"),
    _shape("PASSWORD", "ldap", r"ldap\w+\b[^\n;|]{0,200}?\s-w[\s=]*[\"']?(?P<secret>[^\s\"']+)"),
    _shape(
        "PASSWORD",
        "kennwort|mot de passe|contraseña|senha|пароль|密码|口令|密钥|パスワード|비밀번호",
        _IN_OTHER_TONGUES,
        re.IGNORECASE,
    ),
    _shape("PASSWORD", "pwd=", r"(?<=[;&?])pwd=(?P<secret>[^;&\s\"']+)", re.IGNORECASE),
    _shape("PASSWORD", "password>", r"password>(?P<secret>[^<\s]{3,})</", re.IGNORECASE),
    _shape("PASSWORD", "pass:", r"\bpass:(?P<secret>[^\s\"']{4,})"),  # openssl -pass pass:…
    _shape("PASSWORD", "identified ", r"\bidentified\s+by\s+(?:password\s+)?[\"'](?P<secret>[^\"']+)", re.IGNORECASE),
    _shape(
        "PASSWORD",
        "curl ",
        r"\bcurl\b[^\n;|]{0,500}?\s(?:-u|--(?:proxy-)?user)[\s=]+[\"']?[^\s:\"']+:(?P<secret>[^\s\"']+)",
    ),
)
