"""What counts as a secret and where it stands in a text; `sitrepd.redact` is the way in."""
