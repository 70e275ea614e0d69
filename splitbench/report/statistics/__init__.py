"""Means, intervals, comparisons, and what makes a number doubtful."""
