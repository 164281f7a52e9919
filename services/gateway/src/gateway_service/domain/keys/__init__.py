"""API keys: who may call, and what."""
