"""Rows, their index, and archives of them. Never loads torch."""
