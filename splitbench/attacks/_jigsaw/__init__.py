"""Tokens back to patches, and patches back to where they were."""
