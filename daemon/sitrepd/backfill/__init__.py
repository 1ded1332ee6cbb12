"""A project that began without Sitrep: its logs and result files, read once, become facts."""
