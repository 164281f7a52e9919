"""An evaluation, followed to its end."""

from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import Client
from ratchet_client.names import state_name
from ratchet_workflows.errors import WorkflowError
from ratchet_workflows.following.pace import Count
from ratchet_workflows.progress import SILENT, Progress

REFERENCES = "references, which are tried before the samples"


def follow(
    client: Client,
    evaluation_id: str,
    model: str,
    progress: Progress = SILENT,
) -> pb.Evaluation:
    """The evaluation, when it has ended. `model`: what is measured, for people. Raises the client's errors."""
    evaluation = pb.Evaluation(id=evaluation_id)
    count = Count(f"evaluating {model}", "samples")
    goes_on = f"Evaluation {evaluation_id} goes on. Look at it: ratchet evaluations show {evaluation_id}"
    with progress.following(count, goes_on) as changed:
        for evaluation in client.evaluations.watch(evaluation_id):
            if evaluation.waits_for:
                count.wait(evaluation.waits_for)
            elif evaluation.references_done < evaluation.references_total:
                count.update(evaluation.references_done, evaluation.references_total, REFERENCES)
            else:
                count.update(evaluation.samples_done, evaluation.samples_total, "samples")
            changed()
    return evaluation


def raise_unless_succeeded(evaluation: pb.Evaluation) -> None:
    """Raises WorkflowError."""
    if evaluation.state != pb.Evaluation.STATE_SUCCEEDED:
        reason = evaluation.failure.message or "see ratchet logs eval"
        raise WorkflowError(f"Evaluation {evaluation.id} ended {state_name(evaluation)}: {reason}")
