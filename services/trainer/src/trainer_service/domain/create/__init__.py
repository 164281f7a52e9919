"""Runs as callers see them: created from a spec that is completed and checked, then watched, cancelled, resumed."""
