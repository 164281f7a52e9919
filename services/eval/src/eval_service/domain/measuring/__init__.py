"""Stages of a worker's measuring: load, examine, draw, judge, score. They take one value, the attempt."""
