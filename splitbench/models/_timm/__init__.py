"""timm's networks."""
