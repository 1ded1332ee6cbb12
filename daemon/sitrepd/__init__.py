"""Sitrep: the memory of a long GPU-serving session."""

__version__ = "0.1.0"
