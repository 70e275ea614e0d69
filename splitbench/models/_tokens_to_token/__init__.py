"""Tokens-to-Token ViT: overlapping windows become tokens, tokens become images again, three times over."""
