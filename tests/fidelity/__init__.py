"""Whether a fresh mind can go on from a checkpoint alone: what was told, told again exactly; nothing old told as current."""
