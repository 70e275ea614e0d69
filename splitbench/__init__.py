"""The benchmark for privacy in split learning."""

__version__ = "0.1.0"
