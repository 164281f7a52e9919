"""Workflows and schedules: turns and studies as resources, which a worker carries out for the key that created them."""
