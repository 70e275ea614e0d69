"""Recipe, plan, run, store."""
