"""What the gateway takes from a gate."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway_service.adapters.registry import GrpcModelRegistry
from ratchet.common.v1 import model_pb2
from ratchet.registry.v1 import registry_pb2 as pb


@pytest.mark.parametrize(
    ("stale", "passed", "reason"),
    [("", True, "Passed."), ("it is from before starter@2 was taken back", False, "it is from before starter@2 was")],
)
async def test_a_gate_from_before_its_candidate_was_taken_back_is_not_passed(
    stale: str, passed: bool, reason: str
) -> None:
    async def get_gate(request: pb.GetGateRequest) -> pb.GetGateResponse:
        candidate, champion = (model_pb2.VersionRef(model="starter", number=number) for number in (2, 1))
        state = pb.Gate.STATE_PASSED
        gate = pb.Gate(
            id=request.id, state=state, candidate=candidate, champion=champion, reason="Passed.", stale=stale
        )
        return pb.GetGateResponse(gate=gate)

    found = await GrpcModelRegistry(cast(Any, SimpleNamespace(GetGate=get_gate))).gate("gate_1")
    assert (found.passed, found.reason.startswith(reason)) == (passed, True)
