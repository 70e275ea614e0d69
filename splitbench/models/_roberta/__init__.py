"""RoBERTa of any size."""
