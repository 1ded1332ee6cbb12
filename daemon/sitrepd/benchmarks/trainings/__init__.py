"""Training runs from what trainers write: their logs, their state, JSON Lines."""
