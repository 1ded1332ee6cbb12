"""One-time links that let a browser in, and the cookie that keeps it in."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time

COOKIE = "sitrep"


class Links:
    """Codes live in memory and open once; the cookie is signed with the token, so it outlives the daemon."""

    def __init__(self, token: str, ttl_s: float) -> None:
        self._key = hashlib.sha256(b"sitrep dashboard cookie\0" + token.encode()).digest()
        self._ttl_s = ttl_s
        self._codes: dict[str, float] = {}

    def make(self) -> str:
        """A code that `redeem` takes once, within the time to live."""
        now = time.monotonic()
        self._codes = {code: until for code, until in self._codes.items() if until > now}
        code = secrets.token_urlsafe(24)
        self._codes[code] = now + self._ttl_s
        return code

    def redeem(self, code: str) -> str | None:
        """The cookie's value for a code that is still good."""
        until = self._codes.pop(code, 0.0)
        if until < time.monotonic():
            return None
        name = secrets.token_urlsafe(18)
        return f"{name}.{self._sign(name)}"

    def knows(self, cookie: str) -> bool:
        name, _, signature = cookie.partition(".")
        return hmac.compare_digest(signature, self._sign(name))

    def _sign(self, name: str) -> str:
        return hmac.new(self._key, name.encode(), hashlib.sha256).hexdigest()
