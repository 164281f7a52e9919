"""Programs, tests, limits, verdicts, and how a verdict follows from what a cage saw. Plain Python, no I/O."""
