"""Who talks to whom."""
