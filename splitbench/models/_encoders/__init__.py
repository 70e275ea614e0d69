"""Text encoders of the BERT family, their parts in a row."""
