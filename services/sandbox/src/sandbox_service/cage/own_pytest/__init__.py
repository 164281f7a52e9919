"""A pytest of our own for test code: the same on every node, whether the real one is there or not."""
