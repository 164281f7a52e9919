"""The error that the local platform raises."""


class PlatformError(Exception):
    """One sentence for the user: what is wrong, and what to do about it."""
