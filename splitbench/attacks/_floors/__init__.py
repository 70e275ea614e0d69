"""Attackers that look at nothing."""
