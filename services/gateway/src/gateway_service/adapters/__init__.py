"""Each port of the domain for real, and in memory for tests."""
