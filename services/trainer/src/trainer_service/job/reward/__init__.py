"""Rewards: numbers for the graded answers of a group."""
