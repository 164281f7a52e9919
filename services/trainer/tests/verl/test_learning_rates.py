"""The learning rate of each step, by verl's engine with our change to it."""

import math
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs the trainer environment")
pytest.importorskip("verl", reason="needs the trainer environment")

from verl.utils.config import omega_conf_to_dataclass  # noqa: E402
from verl.workers.engine.fsdp.transformer_impl import FSDPEngine  # noqa: E402

from trainer_service.domain.spec.hyperparameters import Hyperparameters  # noqa: E402
from trainer_service.verl.config import rl_overrides, sft_overrides  # noqa: E402
from trainer_service.verl.rank.patches import learning_rates, reported_learning_rate  # noqa: E402
from trainer_service.verl.runtime import compose_config  # noqa: E402

pytestmark = pytest.mark.verl

STEPS, WARMUP, END = 12, 2, 0.1


def cosine(share: float) -> float:
    return END + (1 - END) * 0.5 * (1 + math.cos(math.pi * share))


def linear(share: float) -> float:
    return 1 - (1 - END) * share


@pytest.fixture
def unpatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes back what a test changes of verl."""
    for name in ("_build_lr_scheduler", "lr_scheduler_step"):
        monkeypatch.setattr(FSDPEngine, name, getattr(FSDPEngine, name))


@pytest.mark.parametrize("algorithm", ["grpo", "sft"])
@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", lambda share: 1.0), ("cosine", cosine), ("linear", linear)]
)
def test_each_schedule(
    algorithm: str,
    schedule: str,
    expected: Any,
    make_job: Any,
    make_complete_spec: Any,
    monkeypatch: pytest.MonkeyPatch,
    unpatched: None,
) -> None:
    end = 0.0 if schedule == "constant" else END
    hyper = Hyperparameters(
        learning_rate=0.5, warmup_steps=WARMUP, learning_rate_schedule=schedule, learning_rate_end_ratio=end
    )
    job = make_job(make_complete_spec(algorithm=algorithm, steps=STEPS, hyperparameters=hyper))
    for name, value in job.to_env().items():
        monkeypatch.setenv(name, value)
    if algorithm == "sft":
        optim = compose_config("sft_trainer_engine", sft_overrides(job, None)).optim
    else:
        optim = compose_config("ppo_trainer", rl_overrides(job, None)).actor_rollout_ref.actor.optim
    optim.total_training_steps = STEPS  # as verl's trainers set it
    learning_rates.apply()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=optim.lr)
    engine = SimpleNamespace(optimizer_config=omega_conf_to_dataclass(optim), rank=1)
    scheduler = FSDPEngine._build_lr_scheduler(engine, optimizer)
    rates = []
    for _ in range(STEPS + 1):
        rates.append(scheduler.get_last_lr()[0] / 0.5)
        optimizer.step()
        scheduler.step()
    assert rates[:WARMUP] == [0.5, 1]  # the first step learns, too
    shares = [(step - WARMUP) / (STEPS - WARMUP) for step in range(WARMUP, STEPS + 1)]
    assert rates[WARMUP:] == pytest.approx([expected(share) for share in shares])
    if schedule != "constant":
        assert rates[STEPS] == pytest.approx(END)


def test_the_rate_of_a_step_is_the_one_that_it_learned_by(unpatched: None) -> None:
    reported_learning_rate.apply()
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    engine = SimpleNamespace(lr_scheduler=torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / 4))
    for expected in (0.5, 0.375, 0.25, 0.125):
        before, weight.grad = float(weight), torch.ones(1)
        optimizer.step()
        assert before - float(weight) == pytest.approx(expected)
        assert FSDPEngine.lr_scheduler_step(engine) == pytest.approx(expected)
