"""The errors of workflows, beside the client's. The text of each is a sentence for the user."""


class WorkflowError(Exception):
    """A stage failed, or the folder of the work cannot be used."""


class UsageError(WorkflowError):
    """The request itself is invalid: a field of a plan, the name of a model. Nothing was begun."""
