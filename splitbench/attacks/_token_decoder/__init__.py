"""Smashed data as tokens, and the transformer that turns them into images."""
