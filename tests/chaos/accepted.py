"""Work that a platform has accepted, and that must be done once and rightly: an evaluation of given samples, whose
verdicts are known, and versions of models, whose weights are."""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import ratchet_problems
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet_client import Client
from ratchet_kit.ids import new_id

from .judges import User

SET, PROBLEMS, PER_PROBLEM = "composed/test", 30, 8
SAMPLES = PROBLEMS * PER_PROBLEM
MODEL = "starter"
SPEC = eval_pb2.EvaluationSpec(
    problems=problem_pb2.ProblemSetRef(name=SET, limit=PROBLEMS),
    samples_per_problem=PER_PROBLEM,
    imported_samples=SAMPLES,
    k=[1],
)
_SLEEPS = "import time\ntime.sleep(0.3)\n"
_KINDS = (
    (verdict_pb2.VERDICT_PASSED, "{reference}"),
    (verdict_pb2.VERDICT_FAILED, "def solve(*args):\n    return 'no'"),
    (verdict_pb2.VERDICT_RUNTIME_ERROR, "def solve(*args):\n    raise ValueError"),
    (verdict_pb2.VERDICT_COMPILE_ERROR, "def solve("),
)


@dataclass(frozen=True, slots=True)
class Evaluation:
    id: str

    @classmethod
    def begin(cls, user: User) -> "Evaluation":
        """One of which ten samples are judged."""
        request_id, given = new_id("request"), [sample for _, sample in _samples()]
        id = user.insist(lambda client: client.evaluations.create(SPEC, request_id)).id
        user.insist(lambda client: client.evaluations.add_samples(id, given))
        user.wait_until(lambda client: client.evaluations.get(id).samples_done >= 10)
        return cls(id)

    def is_over(self, client: Client) -> bool:
        return client.evaluations.get(self.id).end_time.seconds > 0

    def check(self, user: User) -> None:
        """Each sample has one verdict, its own; nothing is missing and nothing is there twice."""
        user.wait_until(self.is_over)
        evaluation = user.insist(lambda client: client.evaluations.get(self.id))
        assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
        found = user.insist(lambda client: list(client.evaluations.samples(self.id)))
        expected = {(sample.problem_id, sample.index): verdict for verdict, sample in _samples()}
        assert len(found) == SAMPLES
        assert {(one.problem_id, one.index): one.verdict for one in found} == expected
        assert evaluation.pass_at_k[0].estimate.value == 0.25


def _samples() -> list[tuple[verdict_pb2.Verdict.ValueType, eval_pb2.ImportedSample]]:
    return [
        (
            verdict,
            eval_pb2.ImportedSample(
                problem_id=problem.id,
                index=index,
                solution=_SLEEPS + text.replace("{reference}", problem.references[0]),
            ),
        )
        for problem in ratchet_problems.load(SET)[:PROBLEMS]
        for index in range(PER_PROBLEM)
        for verdict, text in [_KINDS[index % len(_KINDS)]]
    ]


@dataclass(frozen=True, slots=True)
class Versions:
    """Of one model."""

    model: str
    numbers: Sequence[int]

    @classmethod
    def begin(cls, user: User, folder: Path, count: int = 3) -> "Versions":
        model = new_id("model").lower().replace("_", "-")
        numbers = []
        for seed in range(count):
            source, request_id = tiny_model(folder / f"{model}-{seed}", seed), new_id("request")
            version = user.insist(
                lambda client, source=source, request_id=request_id: client.models.create_version(  # type: ignore[misc]
                    model, str(source), request_id=request_id
                )
            )
            numbers.append(version.ref.number)
        return cls(model, numbers)

    def check(self, user: User) -> None:
        """Each request has made one version, with the weights that it named, and no other was made."""
        assert sorted(self.numbers) == list(range(1, len(self.numbers) + 1))

        def are_over(client: Client) -> bool:
            versions = list(client.models.versions(self.model))
            return all(one.state != registry_pb2.Version.STATE_PENDING for one in versions)

        user.wait_until(are_over)
        made = user.insist(lambda client: list(client.models.versions(self.model)))
        assert [one.state for one in made] == [registry_pb2.Version.STATE_READY] * len(self.numbers), made
        assert len({one.policy_id for one in made}) == len(made)


def tiny_model(folder: Path, seed: int) -> Path:
    """A model of one tensor of two numbers."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<ff", seed, 1.0))
    return folder
