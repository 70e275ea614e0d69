"""Aligning features of the adversary's own with the client's."""
