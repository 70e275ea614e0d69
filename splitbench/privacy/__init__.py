"""What is proven about a defense, and what the proof is worth."""
