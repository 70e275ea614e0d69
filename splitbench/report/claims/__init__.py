"""What a paper's text claims, judged on our rows."""
