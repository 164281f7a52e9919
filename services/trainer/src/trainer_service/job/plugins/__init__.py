"""Plug-ins in a job: found, held to their signatures, and called in a process of their own."""
