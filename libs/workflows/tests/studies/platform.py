"""A platform in memory, as far as a study needs it: each look at a run finds it a step further."""

from types import SimpleNamespace
from typing import Any

from ratchet.common.v1 import statistics_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Unreachable

RUN, EVALUATION = trainer_pb2.Run, eval_pb2.Evaluation


class Killed(BaseException):
    """kill -9, at one call."""


class Platform:
    """A run's validation is better the nearer its learning rate is to 1e-4; its held-out score is 0.1 higher, and
    with each seed another hundred times its learning rate. `failing`: seeds whose runs fail, once each."""

    def __init__(self, *failing: int) -> None:
        self.failing = list(failing)
        self.made: dict[str, Any] = {}
        """Request id -> what was created under it."""
        self.champion = 1
        self.calls = 0
        self.kill_at = 0
        self.away = 0
        self.refusals: list[ApiError] = []
        self.runs = SimpleNamespace(
            create=self._create_run, get=self._get_run, steps=self._steps, cancel=self._cancel, resume=self._resume
        )
        self.evaluations = SimpleNamespace(
            create=self._create_evaluation, get=self._get_evaluation, compare=self._compare
        )
        self.models = SimpleNamespace(
            get=lambda name: registry_pb2.Model(name=name, aliases={"champion": self.champion})
        )

    def all(self, kind: Any) -> list[Any]:
        return [one for one in self.made.values() if isinstance(one, kind)]

    def _called(self) -> None:
        self.calls += 1
        if self.away:
            self.away -= 1
            raise Unreachable("No answer.")
        if self.calls == self.kill_at:
            raise Killed

    def _create_run(self, spec: Any, request_id: str = "", *, validate_only: bool = False) -> Any:
        if validate_only:
            if self.refusals:
                raise self.refusals.pop(0)
            taken = trainer_pb2.RunSpec()
            taken.CopyFrom(spec)
            if not taken.hyperparameters.HasField("learning_rate"):
                taken.hyperparameters.learning_rate = 1e-5
            taken.hyperparameters.clip_high = taken.hyperparameters.clip_high or 0.2
            return RUN(spec=taken)
        self._called()
        if request_id not in self.made:
            self.made[request_id] = RUN(id=f"run_{len(self.made)}", spec=spec, state=RUN.STATE_QUEUED)
        return self._copy(self.made[request_id])

    def _get_run(self, id: str) -> Any:
        self._called()
        run = self._found(id)
        if run.state in (RUN.STATE_QUEUED, RUN.STATE_RUNNING):
            self._step(run)
        return self._copy(run)

    def _step(self, run: Any) -> None:
        run.state, run.step = RUN.STATE_RUNNING, run.step + 1
        run.tokens = 100 * run.step
        if run.spec.seed in self.failing:
            self.failing.remove(run.spec.seed)
            run.state = RUN.STATE_FAILED
            run.failure.message = "the disk is full"
        elif run.step == run.spec.steps or (run.spec.HasField("max_tokens") and run.tokens >= run.spec.max_tokens):
            run.state = RUN.STATE_SUCCEEDED
            run.best_checkpoint.uri = f"/exports/{run.id}"
            run.best_checkpoint.validation_score = score(run.spec)
            run.start_time.FromSeconds(1_000)
            run.end_time.FromSeconds(1_060)

    def _steps(self, id: str) -> list[Any]:
        run = self._found(id)
        value = score(run.spec)
        return [
            trainer_pb2.Step(
                number=number,
                metrics={
                    "reward_mean": number / 10,
                    "tokens_total": 100.0 * number,
                    "validation_score": value * number / run.spec.steps,
                    "memory_bytes_max": 2.0**30,
                },
            )
            for number in range(1, run.step + 1)
        ]

    def _cancel(self, id: str) -> Any:
        run = self._found(id)
        run.state = RUN.STATE_CANCELLED
        self._called()
        return self._copy(run)

    def _resume(self, id: str) -> Any:
        run = self._found(id)
        run.state, run.resumes = RUN.STATE_QUEUED, run.resumes + 1
        return self._copy(run)

    def _create_evaluation(self, spec: Any, request_id: str = "", *, validate_only: bool = False) -> Any:
        if validate_only:
            return EVALUATION(spec=spec)
        self._called()
        if request_id not in self.made:
            self.made[request_id] = EVALUATION(id=f"eval_{len(self.made)}", spec=spec, state=EVALUATION.STATE_RUNNING)
        return self._copy(self.made[request_id])

    def _get_evaluation(self, id: str) -> Any:
        self._called()
        evaluation = self._found(id)
        if evaluation.state == EVALUATION.STATE_RUNNING:
            evaluation.state = EVALUATION.STATE_SUCCEEDED
            run = self._found(evaluation.spec.model.uri.rpartition("/")[2])
            value = score(run.spec) + 0.1 + run.spec.seed * 100 * run.spec.hyperparameters.learning_rate
            evaluation.pass_at_k.add(
                k=1, estimate=statistics_pb2.Estimate(value=value, low=value - 0.1, high=value + 0.1)
            )
        return self._copy(evaluation)

    def _compare(self, before: str, after: str) -> Any:
        gap = self._value(after) - self._value(before)
        found = statistics_pb2.Comparison(problems=50)
        found.difference.CopyFrom(statistics_pb2.Estimate(value=gap, low=gap - 0.02, high=gap + 0.02))
        return found

    def _value(self, id: str) -> float:
        return float(self._found(id).pass_at_k[0].estimate.value)

    def _found(self, id: str) -> Any:
        return next(one for one in self.made.values() if one.id == id)

    def _copy(self, message: Any) -> Any:
        """What the service says now, not what it will."""
        copy = type(message)()
        copy.CopyFrom(message)
        return copy


def score(spec: Any) -> float:
    rate = spec.hyperparameters.learning_rate or 1e-5
    return 0.5 - 4_000 * abs(rate - 1e-4)
