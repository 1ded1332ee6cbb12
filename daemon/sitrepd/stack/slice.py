"""The stack slice, as the registry sees it."""

from __future__ import annotations

from sitrepd.facts import Noun
from sitrepd.slices import Slice
from sitrepd.stack import models as m
from sitrepd.stack.report import report

STACK = Noun("stack", "stacks", "K", m.Stack, m.StackCreate, m.StackUpdate, m.StackPublic, "The software that a launch ran on.")

SLICE = Slice("stack", (STACK,), report=report)
