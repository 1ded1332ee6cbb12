"""A launch again: repeated with changed flags, compared with another, written down for others to repeat."""
