from datetime import UTC, datetime

import pytest

from ratchet_kit.errors import DataLoss, FailedPrecondition, Failure, Unavailable
from ratchet_kit.idempotency import Request
from rollout_service.domain.policy import Dtype, EngineInfo, Policy, PolicyId, PolicyName, State

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ID, OTHER = PolicyId("sha256:" + "a" * 64), PolicyId("sha256:" + "b" * 64)
LOADING = Policy(PolicyName("p"), "/model", Request.of("r1"), NOW)
READY = LOADING.ready(ID, EngineInfo(Dtype.FLOAT32, 64), NOW)


def test_a_ready_policy_says_what_it_serves() -> None:
    assert READY.state is State.READY
    assert READY.serving_id() == ID
    assert READY.ready_time == NOW


def test_weights_are_counted_and_named() -> None:
    updated = READY.updated(OTHER)
    assert (updated.serving_id(), updated.weight_updates) == (OTHER, 1)


def test_a_dead_engine_is_worth_a_retry_and_keeps_its_weights() -> None:
    restarting = READY.updated(OTHER).restarting("vLLM died")
    assert restarting.policy_id == OTHER
    assert restarting.ready_time is None
    with pytest.raises(Unavailable, match="is being restarted: vLLM died"):
        restarting.serving_id()
    again = restarting.ready(OTHER, EngineInfo(Dtype.FLOAT32, 64), NOW, "sha256:settings")
    assert (again.restart_reason, again.settings_id) == ("", "sha256:settings")


def test_a_failed_policy_is_not_served_and_says_why() -> None:
    failed = READY.failed(DataLoss("the weights are not shown"))
    assert failed.failure == Failure("DATA_LOSS", "the weights are not shown")
    with pytest.raises(FailedPrecondition, match="the weights are not shown"):
        failed.serving_id()
    with pytest.raises(FailedPrecondition):
        failed.restarting("x")


@pytest.mark.parametrize("policy", [LOADING, READY.failed(DataLoss("x")), READY.unloading()])
def test_only_a_ready_policy_takes_weights(policy: Policy) -> None:
    with pytest.raises(FailedPrecondition, match="cannot take new weights"):
        policy.updated(OTHER)


def test_only_a_loading_policy_becomes_ready() -> None:
    with pytest.raises(FailedPrecondition, match="cannot become ready"):
        READY.ready(ID, EngineInfo(Dtype.FLOAT32, 64), NOW)
