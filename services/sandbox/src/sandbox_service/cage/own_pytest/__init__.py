"""What test code finds of pytest: the same whether the real one is there or not."""
