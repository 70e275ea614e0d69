"""Tables made of stored results. Never loads torch."""
