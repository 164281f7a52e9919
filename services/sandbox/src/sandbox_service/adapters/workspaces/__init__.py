"""Cages that last: `cages` makes them, by a warm process (`nursery`) that forks the keeper of each (`cage`)."""
