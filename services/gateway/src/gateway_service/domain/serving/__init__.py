"""Serving: versions loaded in the rollout service, and what they generate."""
