"""Patches followed from round to round."""
