"""The hardware slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Noun
from sitrepd.hardware import models as m
from sitrepd.slices import Slice

HOST = Noun("host", "hosts", "H", m.Host, m.HostCreate, m.HostUpdate, m.HostPublic, "A machine with its GPUs.")

SLICE = Slice("hardware", (HOST,))
