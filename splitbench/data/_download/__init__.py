"""Fetching official files."""
