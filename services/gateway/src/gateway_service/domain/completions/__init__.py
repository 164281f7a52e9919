"""Completions: which version answers a request, and its answer."""
