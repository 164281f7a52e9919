"""A check that measuring uses problems that training does not see."""

from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_workflows.notation.fields import Source


def check_unseen(source: Source, train: trainer_pb2.RunSpec, evaluate: eval_pb2.EvaluationSpec) -> None:
    """By the names of the sets; a gate goes by the problems themselves. Raises UsageError."""
    paths = [(f"evaluate.suite[{place}].problems", entry.problems) for place, entry in enumerate(evaluate.suite)]
    for path, measured in paths or [("evaluate.problems", evaluate.problems)]:
        if measured.name and measured.name == train.problems.name:
            raise source.wrong(path, f"is {measured.name}, which is trained on: a score on it says nothing")
        chosen_by = {train.validation_problems.name, *(one.problems.name for one in train.validate.suite)}
        if measured.name and measured.name in chosen_by:
            raise source.wrong(
                path, f"is {measured.name}, by which the best checkpoint is chosen: a score on it is too high"
            )
