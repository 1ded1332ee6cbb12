"""Sweeps: trials of configurations that are launched, measured and stopped one after another, by nobody."""
