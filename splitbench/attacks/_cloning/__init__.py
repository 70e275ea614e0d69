"""Optimising inputs and a clone of the client together."""
