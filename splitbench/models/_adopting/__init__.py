"""Networks that were not written for splitbench."""
