"""Endpoints that are told of events."""
