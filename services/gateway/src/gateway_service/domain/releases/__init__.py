"""Releases: the gradual move of a model's traffic from its champion to a candidate."""
