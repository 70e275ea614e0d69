"""Terms of a client's loss."""
