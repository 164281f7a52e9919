"""Runs untrusted programs and says what they did: see domain/ for the meaning, cage/ for the isolation."""
