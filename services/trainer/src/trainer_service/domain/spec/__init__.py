"""A run's spec: what callers ask for, and what can be asked for."""
