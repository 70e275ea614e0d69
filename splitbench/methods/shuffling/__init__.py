"""Patch, batch and spectral shuffling: what the defenses and the attacks on them share."""
