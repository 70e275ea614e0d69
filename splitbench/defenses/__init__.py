"""One file per defense."""
