"""Raised by test code that would have to be in the program's process."""


class CannotCross(BaseException):
    """A test does with an object what it can't do from another process: no error of the program, so none to expect."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; tests that need it are for the shared kind of grading")
