"""A platform in memory, as far as a turn needs it: what was created, under which request id, and what comes of it."""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from ratchet.common.v1 import model_pb2, statistics_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Unreachable

RUN, EVALUATION, GATE, RELEASE = trainer_pb2.Run, eval_pb2.Evaluation, registry_pb2.Gate, release_pb2.Release
REFUSED = "Refused: starter@2 has 0.400 and starter@1 0.500 in pass@1 over 50 problems."


class Killed(BaseException):
    """kill -9, at one call."""


class Platform:
    """`outcomes`: of each kind the states that its things come to, the last one for all that follow."""

    def __init__(self, **outcomes: list[int]) -> None:
        self.outcomes: dict[str, list[int]] = {
            "run": [RUN.STATE_SUCCEEDED],
            "evaluation": [EVALUATION.STATE_SUCCEEDED],
            "gate": [GATE.STATE_PASSED],
            "release": [RELEASE.STATE_SUCCEEDED],
        } | outcomes
        self.made: dict[str, Any] = {}
        """Request id -> what was created under it."""
        self.champion = 1
        self.calls: list[str] = []
        self.kill_before = self.kill_after = 0
        self.away = 0
        """So many calls have no answer."""
        self.refusals: dict[str, ApiError] = {}
        """Kind -> how its next create is refused."""
        at = self._at
        self.runs = SimpleNamespace(
            create=at("run.create", self._create_run),
            get=at("run.get", self._get),
            resume=at("run.resume", self._resume),
            watch=at("run.watch", self._watch_run),
            steps=lambda id: [trainer_pb2.Step(number=n, metrics={"reward_mean": n / 4}) for n in (1, 2)],
        )
        self.evaluations = SimpleNamespace(
            create=at("evaluation.create", self._create_evaluation),
            get=at("evaluation.get", self._get),
            watch=at("evaluation.watch", lambda id: self._ended(id, "evaluation")),
            samples=lambda id: [],
            compare=lambda before, after: statistics_pb2.Comparison(problems=50),
            compare_sets=lambda before, after, confidence=None: eval_pb2.CompareEvaluationsResponse(),
        )
        self.models = SimpleNamespace(
            get=at("model.get", self._model),
            create_gate=at("gate.create", self._create_gate),
            gate=at("gate.get", self._get),
            wait_gate=at("gate.wait", lambda id: list(self._ended(id, "gate"))[-1]),
        )
        self.releases = SimpleNamespace(
            create=at("release.create", self._create_release),
            get=at("release.get", self._get),
            watch=at("release.watch", self._watch_release),
        )

    def count(self, kind: type) -> int:
        return sum(type(one) is kind for one in self.made.values())

    def _at(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            if self.away:
                self.away -= 1
                raise Unreachable("No answer.")
            if len(self.calls) == self.kill_before:
                raise Killed
            result = call(*args, **kwargs)
            if len(self.calls) == self.kill_after:
                raise Killed
            return result

        return called

    def _made(self, request_id: str, thing: Any) -> Any:
        kind = type(thing).__name__.lower()
        if request_id not in self.made:
            if refusal := self.refusals.pop(kind, None):
                raise refusal
            thing.id = f"{kind}_{len(self.made)}"
            self.made[request_id] = thing
        return self.made[request_id]

    def _get(self, id: str) -> Any:
        return next(one for one in self.made.values() if one.id == id)

    def _comes_to(self, kind: str) -> int:
        outcomes = self.outcomes[kind]
        return outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]

    def _ended(self, id: str, kind: str) -> Iterator[Any]:
        thing = self._get(id)
        if thing.state in (0, 1):  # UNSPECIFIED here is "not ended"
            thing.state = self._comes_to(kind)
            if kind == "gate":
                thing.reason = REFUSED if thing.state == GATE.STATE_REFUSED else "Passed: it gained."
                thing.comparison.difference.low = -0.2 if thing.state == GATE.STATE_REFUSED else 0.1
        yield thing

    def _model(self, name: str) -> Any:
        if self.champion < 0:
            raise ApiError(404, "NOT_FOUND", f"there is no model {name}")
        return registry_pb2.Model(name=name, aliases={"champion": self.champion} if self.champion else {})

    def _create_run(self, spec: Any, request_id: str = "", *, validate_only: bool = False) -> Any:
        if validate_only:
            if refusal := self.refusals.pop("run", None):
                raise refusal
            return RUN(spec=spec)
        return self._made(request_id, RUN(spec=spec))

    def _watch_run(self, id: str, after_step: int = 0) -> Iterator[Any]:
        for run in self._ended(id, "run"):
            if run.state == RUN.STATE_SUCCEEDED:
                run.version.CopyFrom(model_pb2.VersionRef(model="starter", number=2))
            elif not run.failure.message:
                run.failure.message = "the disk is full"
            yield trainer_pb2.WatchRunResponse(run=run)

    def _resume(self, id: str) -> Any:
        run = self._get(id)
        run.state, run.resumes = RUN.STATE_UNSPECIFIED, run.resumes + 1
        return run

    def _create_evaluation(
        self, spec: Any, request_id: str = "", *, validate_only: bool = False, for_gate: bool = False
    ) -> Any:
        if validate_only:
            assert for_gate
            if refusal := self.refusals.pop("evaluation", None):
                raise refusal
            return EVALUATION(spec=spec)
        return self._made(request_id, EVALUATION(spec=spec))

    def _create_gate(self, candidate: Any, after: str, before: str, *, request_id: str = "", **rules: Any) -> Any:
        if candidate.number == self.champion:
            raise self.refusals.pop("gate", ApiError(400, "INVALID_ARGUMENT", "it is the champion itself"))
        gate = GATE(candidate=candidate, candidate_evaluation_id=after, champion_evaluation_id=before)
        gate.champion.CopyFrom(model_pb2.VersionRef(model="starter", number=self.champion))
        return self._made(request_id, gate)

    def _create_release(self, spec: Any, request_id: str = "") -> Any:
        if request_id in self.made:
            return self.made[request_id]
        if spec.candidate.number == self.champion:
            raise self.refusals.pop("release", ApiError(412, "FAILED_PRECONDITION", "it is the champion already"))
        if self._get(spec.gate_id).champion.number != self.champion:
            raise ApiError(412, "FAILED_PRECONDITION", "the gate compared with another champion")
        return self._made(request_id, RELEASE(spec=spec))

    def _watch_release(self, id: str) -> Iterator[Any]:
        for release in self._ended(id, "release"):
            if release.state == RELEASE.STATE_SUCCEEDED:
                self.champion = release.spec.candidate.number
            if release.state == RELEASE.STATE_ROLLED_BACK:
                release.events.add(percent=5, reason="began")
                release.events.add(percent=0, reason="3 of 10 requests failed")
            yield release


def specs(platform: Platform) -> Mapping[str, Any]:
    """Request id, without the workflow's -> what was created."""
    return {id.split("-", 1)[1]: one for id, one in platform.made.items()}
