"""Where notices go: webhooks, ntfy topics and Slack's incoming webhooks, each with the request that it understands."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from email.header import Header
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from sitrepd.notices.models import URGENT, Notice

if TYPE_CHECKING:
    from sitrepd.settings import Settings


@dataclass(frozen=True)
class Request:
    """An HTTP POST."""

    url: str
    body: bytes
    headers: dict[str, str]


@dataclass(frozen=True)
class Target:
    """An address, and how a notice is put for it; `name` hides what is secret in the address."""

    url: str
    write: Callable[[str, Notice], Request]

    @property
    def name(self) -> str:
        return f"{urlsplit(self.url).scheme}://{urlsplit(self.url).hostname}/…"

    def request(self, notice: Notice) -> Request:
        return self.write(self.url, notice)


def targets(settings: Settings) -> list[Target]:
    """All that the settings name."""
    return [
        *(Target(url, webhook) for url in settings.notify_webhook),
        *(Target(url, ntfy) for url in settings.notify_ntfy),
        *(Target(url, slack) for url in settings.notify_slack),
    ]


def webhook(url: str, notice: Notice) -> Request:
    """The notice as JSON."""
    plain, headers = _authorized(url)
    return Request(plain, notice.model_dump_json().encode(), headers | {"Content-Type": "application/json"})


def ntfy(url: str, notice: Notice) -> Request:
    """A topic of ntfy: the text as the body, the title in a header."""
    plain, headers = _authorized(url)
    title = " ".join(notice.title.split())
    headers |= {"Title": title if title.isascii() else Header(title, "utf-8").encode(maxlinelen=0)}
    headers |= {"Tags": f"sitrep,{notice.kind}", "Priority": "high" if notice.kind in URGENT else "default"}
    return Request(plain, notice.text.encode(), headers)


def slack(url: str, notice: Notice) -> Request:
    """An incoming webhook of Slack, or of what speaks as it does; its three special characters are escaped."""
    text = f"{notice.title}\n{notice.text}".replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Request(url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"})


def _authorized(url: str) -> tuple[str, dict[str, str]]:
    """The address without the name and password in it, which go into a header; a password alone is a bearer token."""
    parts = urlsplit(url)
    if parts.password is None and parts.username is None:
        return url, {}
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    name, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not name:
        return plain, {"Authorization": f"Bearer {password}"}
    return plain, {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}
