"""What test code holds to run, what of its comparisons counts, and how it ended."""
