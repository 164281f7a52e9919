"""Cages that last: a folder, and the programs that run in it one after the other. See nursery.py."""
