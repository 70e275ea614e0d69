"""What belongs to one paper and is used by its defense and by attacks on it."""
