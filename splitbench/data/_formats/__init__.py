"""Reading the formats that data comes in."""
