"""The kinds of server whose start Sitrep understands."""
