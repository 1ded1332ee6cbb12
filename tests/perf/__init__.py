"""Benchmarks of Sitrep itself: `uv run python -m tests.perf --json [NAME…]`, one object a line."""
