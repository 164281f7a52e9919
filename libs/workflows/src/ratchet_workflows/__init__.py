"""Several runs, evaluations and releases of Ratchet as one piece of work, over a client.

A turn takes a model from its champion to the next released version, a study trains variants and compares them: the
platform works on both, see `kinds`. `matrix` measures models on benchmarks, and goes on where an earlier call
stopped.
"""

from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.matrices import Matrix, matrix
from ratchet_workflows.progress import Progress

__all__ = ["Matrix", "Progress", "UsageError", "WorkflowError", "matrix"]
