"""What the daemon says on standard error, free of secrets, tracebacks included."""

from __future__ import annotations

import copy
import logging
from typing import Any

from uvicorn.config import LOGGING_CONFIG
from uvicorn.logging import DefaultFormatter

from sitrepd.redact import redact_text


class Redacted(DefaultFormatter):
    """As uvicorn writes its lines."""

    def format(self, record: logging.LogRecord) -> str:
        return redact_text(super().format(record))


def log_config(level: str) -> dict[str, Any]:
    """For `uvicorn.Config`: its own loggers, and ours beside them."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["formatters"]["default"]["()"] = "sitrepd.logs.Redacted"
    config["loggers"]["sitrepd"] = {"handlers": ["default"], "level": level.upper(), "propagate": False}
    config["loggers"]["mcp"] = {"handlers": ["default"], "level": "WARNING", "propagate": False}
    return config
