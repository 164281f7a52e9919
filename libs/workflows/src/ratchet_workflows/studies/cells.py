"""One run of a study, and how it comes to its score: train, then measure. Each look may be the last or the first."""

from collections.abc import Sequence

from ratchet.common.v1 import model_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client import ApiError, Client
from ratchet_client.names import state_name
from ratchet_workflows.studies.plan import Plan, Variant
from ratchet_workflows.studies.records import Record

MOST_ATTEMPTS = 20
"""Attempts at an evaluation that failed."""
RUN_ENDED = (pb.Run.STATE_SUCCEEDED, pb.Run.STATE_FAILED, pb.Run.STATE_CANCELLED)
EVALUATION_LOST = (eval_pb2.Evaluation.STATE_FAILED, eval_pb2.Evaluation.STATE_CANCELLED)


class Cell:  # mutable: it is what the command follows
    """A variant with a seed.

    `measured`: whether its result is evaluated; a trial of a search goes by its validation alone.
    """

    def __init__(self, variant: Variant, seed: int, *, measured: bool = True) -> None:
        self.variant = variant
        self.seed = seed
        self.measured = measured
        self.run: pb.Run | None = None
        self.steps: Sequence[pb.Step] = ()
        self.evaluation: eval_pb2.Evaluation | None = None
        self.fault = ""
        """One sentence, where it has ended without a score."""
        self.stopped_early = False

    @property
    def name(self) -> str:
        return f"{self.variant.name}, seed {self.seed}"

    @property
    def is_trained(self) -> bool:
        return self.run is not None and self.run.state == pb.Run.STATE_SUCCEEDED

    @property
    def has_ended(self) -> bool:
        if self.fault or self.stopped_early:
            return True
        if not self.measured:
            return self.is_trained
        return self.evaluation is not None and self.evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED

    def advance(self, client: Client, plan: Plan, record: Record) -> None:
        """Takes the next look, or the next step. What the platform refuses is this cell's fault; raises Unreachable."""
        try:
            if not self.is_trained:
                self._train(client, record)
            if self.is_trained and self.measured:
                self._measure(client, plan, record)
        except ApiError as error:
            self.fault = str(error)

    def stop_early(self, client: Client) -> None:
        assert self.run is not None
        if self.run.state not in RUN_ENDED:
            try:
                self.run = client.runs.cancel(self.run.id)
            except ApiError as error:
                if error.code != "FAILED_PRECONDITION":  # it has ended meanwhile
                    raise
                self.run = client.runs.get(self.run.id)
        self.stopped_early = True

    def _train(self, client: Client, record: Record) -> None:
        is_first_look = self.run is None
        if self.run is None:
            spec = self.variant.run_of(self.seed, record.bases)
            self.run = client.runs.create(spec, record.request_id(spec, "train"))
        else:
            self.run = client.runs.get(self.run.id)
        # Scores of evaluations come after their steps.
        if self.run.spec.HasField("validate") or self.run.step != (self.steps[-1].number if self.steps else 0):
            self.steps = list(client.runs.steps(self.run.id))
        if self.run.state in (pb.Run.STATE_FAILED, pb.Run.STATE_CANCELLED):
            if is_first_look and self.measured:  # it was left so by an earlier command
                self.run = client.runs.resume(self.run.id)
            else:
                self.fault = f"{state_name(self.run)}: {self.run.failure.message or 'it was cancelled'}"

    def _measure(self, client: Client, plan: Plan, record: Record) -> None:
        assert self.run is not None
        if self.evaluation is None:
            model = model_of(self.run)
            if model is None:
                self.fault = f"{self.run.id} succeeded and has no checkpoint"
                return
            spec = plan.evaluation_of(model)
            for attempt in range(MOST_ATTEMPTS):
                self.evaluation = client.evaluations.create(spec, record.request_id(spec, f"evaluate-{attempt}"))
                if self.evaluation.state not in EVALUATION_LOST:
                    return
        else:
            self.evaluation = client.evaluations.get(self.evaluation.id)
        if self.evaluation is not None and self.evaluation.state in EVALUATION_LOST:
            reason = self.evaluation.failure.message or self.evaluation.id
            self.fault = f"its evaluation {state_name(self.evaluation)}: {reason}"


def model_of(run: pb.Run) -> model_pb2.ModelRef | None:
    """The model that the run made: the version that it registered, or its best checkpoint."""
    if run.HasField("version"):
        return model_pb2.ModelRef(version=run.version)
    return model_pb2.ModelRef(uri=run.best_checkpoint.uri) if run.best_checkpoint.uri else None
