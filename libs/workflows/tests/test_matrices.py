"""A matrix over a platform in memory, as a program asks for it; the command's tests have the rest."""

from types import SimpleNamespace
from typing import Any

import pytest

from ratchet.common.v1 import statistics_pb2
from ratchet.eval.v1 import eval_pb2 as pb
from ratchet_client import ApiError
from ratchet_workflows import UsageError, matrices, matrix


class Platform:
    def __init__(self) -> None:
        self.made: dict[str, pb.Evaluation] = {}
        self.evaluations = SimpleNamespace(create=self._create, get=self._get)

    def _create(self, spec: pb.EvaluationSpec, request_id: str) -> pb.Evaluation:
        if spec.problems.name == "nothing":
            raise ApiError(400, "INVALID_ARGUMENT", "there is no set 'nothing'")
        made = pb.Evaluation(id=f"eval_{len(self.made)}", spec=spec, state=pb.Evaluation.STATE_RUNNING)
        return self.made.setdefault(request_id, made)

    def _get(self, id: str) -> pb.Evaluation:
        found = next(one for one in self.made.values() if one.id == id)
        found.state = pb.Evaluation.STATE_SUCCEEDED
        del found.pass_at_k[:]
        found.pass_at_k.add(k=1, estimate=statistics_pb2.Estimate(value=0.5, low=0.4, high=0.6))
        return found


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrices, "POLL_S", 0.0)


def test_every_cell_is_measured_once_and_one_that_is_refused_has_a_fault() -> None:
    platform: Any = Platform()
    found = matrix(platform, ["m@1", "m@2"], ["basics", "nothing"])
    assert [(cell.model, cell.benchmark, matrices.score(cell)) for cell in found.cells] == [
        ("m@1", "basics", "0.500 [0.400, 0.600]"),
        ("m@1", "nothing", "REFUSED"),
        ("m@2", "basics", "0.500 [0.400, 0.600]"),
        ("m@2", "nothing", "REFUSED"),
    ]
    assert not found.is_whole
    assert found.cells[1].fault == "there is no set 'nothing'"
    assert matrix(platform, ["m@1"], ["basics"]).is_whole
    assert len(platform.made) == 2


def test_a_number_that_no_field_can_hold_is_refused() -> None:
    platform: Any = Platform()
    with pytest.raises(UsageError, match="too large or too small"):
        matrix(platform, ["m@1"], ["basics"], seed=2**70)
