"""One file per attack."""
