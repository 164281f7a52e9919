"""Experiments (A/B/n): versions of a model side by side on live traffic, and what can be concluded of them."""
