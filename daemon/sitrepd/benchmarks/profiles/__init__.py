"""Profiles from what other tools write: traces, summaries, a server's step times, times in a log."""
