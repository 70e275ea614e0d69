"""SEAL's zig-zag, its periodic functions, and what one of them is worth."""
