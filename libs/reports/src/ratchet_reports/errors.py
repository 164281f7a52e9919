"""The error of reports, beside the client's."""


class ReportError(Exception):
    """Something that a report needs is missing, or a file cannot be read or written. Its text is a sentence for the
    user."""
