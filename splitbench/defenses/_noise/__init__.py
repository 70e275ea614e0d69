"""Noise on smashed data and on gradients."""
