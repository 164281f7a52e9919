"""HTTP in."""
