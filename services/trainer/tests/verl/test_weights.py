"""What a rank sends, and sends again to an engine that was lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from ratchet_kit import policy_id  # noqa: E402
from trainer_service.domain.spec.hyperparameters import Hyperparameters  # noqa: E402
from trainer_service.job.policy.transport import Weights, WeightSync  # noqa: E402
from trainer_service.verl.rank import weights as sending  # noqa: E402

pytestmark = pytest.mark.verl


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, str | None]]:
    """Policy id and step of what was sent, and the id of what it was sent as changes of."""
    sent: list[tuple[str, int, str | None]] = []

    class Policy:
        async def push(self, weights: Weights, step: int, base: Weights | None) -> WeightSync:
            sent.append((weights.policy_id, step, base and base.policy_id))
            return WeightSync(weights.policy_id, weights.size_bytes, 0.0, {"prepare": 0.0, "pause": 0.25})

    @asynccontextmanager
    async def rollouts(job: Any) -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(sending, "rollouts", rollouts)
    monkeypatch.setattr(sending.RunPolicy, "of", lambda job, engine: Policy())
    monkeypatch.setenv("RANK", "0")
    return sent


def sender(make_job: Any, monkeypatch: pytest.MonkeyPatch, spec: Any, dtype: str = "float32") -> Any:
    for name, value in make_job(spec, dtype=dtype).to_env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sending.BaseRollout, "__init__", lambda *arguments, **named: None)
    return sending.WeightSender(None, None, None)


def weights(value: float) -> list[tuple[str, "torch.Tensor"]]:
    return [("model.norm.weight", torch.full((3,), value))]


async def test_a_lost_engine_gets_what_it_had_whatever_was_learned_since(
    make_job: Any, make_complete_spec: Any, pushed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = make_complete_spec(hyperparameters=Hyperparameters(max_staleness=1))
    one = sender(make_job, monkeypatch, beside)
    trained = weights(1.0)
    await one.update_weights(trained, global_steps=4)
    trained[0][1].add_(1.0)  # an update
    await one.send_again()
    await one.update_weights(trained, global_steps=5)
    first, again, second = pushed
    assert first == again == (first[0], 4, None)
    assert (second[0] != first[0], second[1:]) == (True, (5, None))  # whole, as float32 always is


async def test_in_bfloat16_changes_are_sent_and_whole_weights_again(
    make_job: Any, make_complete_spec: Any, pushed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sender(make_job, monkeypatch, make_complete_spec(), "bfloat16")
    await one.update_weights(weights(1.0), global_steps=4)
    await one.update_weights(weights(2.0), global_steps=5)
    await one.send_again()
    first, second, again = pushed
    assert second == (second[0], 5, first[0])
    assert again == (second[0], 5, None)


async def test_it_says_how_long_each_part_took(
    make_job: Any, make_complete_spec: Any, pushed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sender(make_job, monkeypatch, make_complete_spec())
    await one.update_weights(weights(1.0), global_steps=4)
    assert one.last_sync.seconds.keys() == {"gather", "hash", "send", "prepare", "pause"}
    assert one.last_sync.seconds["pause"] == 0.25
    assert one.last_sync.seconds["gather"] >= 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_gathered_stays_as_it_was(dtype: "torch.dtype") -> None:
    live = torch.tensor([1.0, 2.0], dtype=dtype)
    [gathered] = sending.gather([("w", live)], dtype, keep=True)
    before = bytes(gathered.data)
    live.add_(1.0)
    assert bytes(gathered.data) == before
    assert policy_id.compute([gathered]) == policy_id.compute([gathered._replace(data=before)])


async def test_what_is_not_kept_is_not_sent_again(
    make_job: Any, make_complete_spec: Any, pushed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = sender(make_job, monkeypatch, make_complete_spec())
    await one.update_weights(weights(1.0), global_steps=4)
    await one.send_again()
    assert len(pushed) == 1
