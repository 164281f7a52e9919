"""Runs test code: finds what it holds to run, counts what its comparisons came to, says how it ended."""
