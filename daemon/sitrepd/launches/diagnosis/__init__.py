"""Why a server failed, from its log and from what else is known of it."""

from __future__ import annotations

from sitrepd.launches.diagnosis.diagnose import diagnose
from sitrepd.launches.diagnosis.model import Diagnosis, Evidence

__all__ = ["Diagnosis", "Evidence", "diagnose"]
