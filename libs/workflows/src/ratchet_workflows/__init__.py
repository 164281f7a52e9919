"""Several runs, evaluations and releases of Ratchet as one piece of work, over a client.

`improve` takes a model from its champion to the next released version, `study` trains variants and compares them,
`matrix` measures models on benchmarks. Each goes on where an earlier call stopped.
"""

from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.matrices import Matrix, matrix
from ratchet_workflows.progress import Progress
from ratchet_workflows.studies.results import StudyResults
from ratchet_workflows.studies.study import study
from ratchet_workflows.turns.improvement import improve
from ratchet_workflows.turns.records import Record, State

__all__ = [
    "Matrix",
    "Progress",
    "Record",
    "State",
    "StudyResults",
    "UsageError",
    "WorkflowError",
    "improve",
    "matrix",
    "study",
]
