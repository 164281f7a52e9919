"""A run: its states and steps, its checkpoints, and where they are stored."""
