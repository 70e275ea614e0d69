"""Recovering SEAL's secret."""
