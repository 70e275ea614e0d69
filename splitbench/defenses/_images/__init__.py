"""Defenses that work on images alone."""
