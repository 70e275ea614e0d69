"""What defenses that shuffle tokens have in common."""
