"""Benchmarks that Sitrep runs itself: each in a process that outlives the daemon, and taken in as it ends."""
