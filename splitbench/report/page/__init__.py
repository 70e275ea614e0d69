"""The report: one HTML file that needs nothing else, made of a store. Never loads torch."""
