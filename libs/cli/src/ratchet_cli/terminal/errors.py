"""The error that a command raises."""


class CommandError(Exception):
    """One sentence for the user: what is wrong, and what to do about it. The command exits with `code`."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code
