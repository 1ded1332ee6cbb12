"""Sitrep: the memory of a long GPU-serving session."""

__version__ = "0.1.0"
# With this header, and its version, a daemon says of each of its answers that it is its own.
ANSWERED_BY = "X-Sitrep"
