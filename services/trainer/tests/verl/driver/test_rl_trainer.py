"""What is made ahead, of what weights, and when they are replaced: verl's loop over memory."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu

from ratchet_kit.errors import DataLoss
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import Resources
from trainer_service.job.policy.transport import WeightSync
from trainer_service.job.policy.weight_versions import Version, WeightVersions
from trainer_service.job.run.schedule import Schedule
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.steps import Generating
from trainer_service.job.session import Session
from trainer_service.verl.driver import rl_trainer
from trainer_service.verl.driver.rl_trainer import RatchetTrainer
from trainer_service.verl.driver.step_sampling import FAULTS
from trainer_service.verl.rank.losses import GAP_MEAN

pytestmark = pytest.mark.verl


@dataclass
class Ranks:
    """Whose weights after a step are named for it."""

    def update_weights(self, global_steps: int, mode: str) -> list[WeightSync | None]:
        return [None, WeightSync(f"sha256:{global_steps}", 7, 0.0)]


@dataclass
class Rollouts:
    """`submitted`: the step that learns from a batch, and the weights that made it."""

    sent: WeightVersions
    submitted: dict[int, Version] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)

    def generate_sequences(self, prompts: TensorDict) -> None:
        step = int(tu.get(prompts, "global_steps"))
        assert step not in self.submitted
        self.submitted[step] = self.sent.version
        self.events.append(f"generate {step}")

    def wait_made(self) -> None:
        self.events.append("wait")

    def evidence(self, step: int) -> list[Evidence]:
        self.events.append(f"evidence {step}")
        return [Evidence(step, 0.5, 0.1, 8, 0.5)]


@pytest.fixture
def trainer(make_job: Any, make_complete_spec: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Built for a spec's `changes`, with everything of verl's that needs Ray, a queue or a model taken off."""
    monkeypatch.setattr(PPOTrainerSync, "__init__", lambda self, config: setattr(self, "config", config))
    monkeypatch.setattr(PPOTrainerSync, "_balance_batch", lambda self, batch, metrics, **options: batch)
    monkeypatch.setattr(PPOTrainerSync, "_save_checkpoint", lambda self: self.rollouts.events.append("save"))
    monkeypatch.setattr(trainer_base.tq, "kv_batch_put", lambda **arguments: None)
    monkeypatch.setattr(rl_trainer.ray, "get", lambda called: called)

    def build(max_staleness: int, **changes: Any) -> RatchetTrainer:
        spec = make_complete_spec(hyperparameters=Hyperparameters(max_staleness=max_staleness), **changes)
        session: Any = SimpleNamespace(
            job=make_job(spec),
            schedule=Schedule.of(spec),
            reporter=SimpleNamespace(phase=lambda phase: None, preempted=False),
            require_space=lambda: None,
            folders=None,
            ending_node=lambda: "",
            background=SimpleNamespace(wait=lambda done: done),
            policy=SimpleNamespace(sleep=lambda: built.rollouts.events.append("sleep")),
        )
        session.is_saved = lambda step: Session.is_saved(session, step)
        session.spend = lambda step, tokens: Session.spend(session, step, tokens)
        batch = SimpleNamespace(train_batch_size=1)
        actor = SimpleNamespace(rollout=SimpleNamespace(n=1))
        config = SimpleNamespace(data=batch, actor_rollout_ref=actor, trainer=SimpleNamespace())
        built = RatchetTrainer(config, session, Future())
        built.trainer_mode, built.actor_rollout_wg, built.timing_raw = "sync", Ranks(), {"gen": 0.5}
        built._compute_old_log_prob = lambda: None
        built._draws, built._groups = None, SimpleNamespace(check_faults=lambda *_: None)
        built.rollouts = built.agent_loop_manager = Rollouts(built._sent)
        built._next_train_batch = lambda: tu.get_tensordict({"uid": ["a"]}, {"global_steps": built.global_steps})
        built.global_steps, built.total_training_steps = 0, spec.steps
        built._loading.set_result(None)
        built.on_init_end()
        return built

    return build


def learn(trainer: Any, step: int, weights: tuple[int, str] | None = None) -> None:
    """As verl's loop does it. `weights`: what the samples say, other than those that made them."""
    trainer.global_steps = step
    trainer.prepare_step()
    version = trainer.rollouts.submitted[step]
    tags = [{"seq_len": 50, "weights": [weights or (version.step, version.policy_id)]}]
    trainer._balance_batch(KVBatchMeta(["a_0_0"], tags, partition_id="train"), {FAULTS: 0})
    trainer._compute_old_log_prob()
    trainer.rollouts.events.append(f"update {step}")
    trainer._save_checkpoint()
    trainer.on_step_end()
    trainer._go_on(step)


def made_by(trainer: Any) -> dict[int, int]:
    return {step: version.step for step, version in trainer.rollouts.submitted.items()}


def test_without_staleness_each_step_learns_from_its_own_weights(trainer: Any) -> None:
    built = trainer(0, steps=3)
    for step in (1, 2, 3):
        learn(built, step)
    assert made_by(built) == {1: 0, 2: 1, 3: 2}


def test_where_they_take_turns_the_engine_sleeps_while_it_learns(trainer: Any) -> None:
    built = trainer(0, steps=2, resources=Resources(device="cuda", shares_gpu=True))
    for step in (1, 2):
        learn(built, step)
    assert built.rollouts.events[:5] == ["generate 1", "sleep", "update 1", "wait", "generate 2"]


def test_the_next_steps_samples_are_made_before_the_update_and_waited_for_before_the_weights(trainer: Any) -> None:
    built = trainer(1, steps=4)
    for step in (1, 2, 3, 4):
        learn(built, step)
    assert made_by(built) == {1: 0, 2: 0, 3: 1, 4: 2}  # and none of a step 5
    assert built.rollouts.events[:6] == ["generate 1", "generate 2", "update 1", "wait", "generate 3", "update 2"]


@pytest.mark.parametrize("changes", [{}, {"max_tokens": 9000}, {"algorithm": "dapo"}])
def test_what_is_made_ahead_waits_for_no_report_where_the_step_before_it_is_known(
    changes: dict[str, Any], trainer: Any
) -> None:
    """Not where that may draw more prompts, or be the last for its tokens: this shows once it has its samples."""
    built = trainer(1, steps=9, **changes)
    learn(built, 1)
    assert list(built.rollouts.submitted) == ([1, 2] if changes else [1, 2, 3])
    learn(built, 2)
    assert made_by(built) == ({1: 0, 2: 0, 3: 1} if changes else {1: 0, 2: 0, 3: 1, 4: 2})


def test_nothing_is_made_ahead_over_a_checkpoint(trainer: Any) -> None:
    built = trainer(1, steps=5, checkpoint_every=2)
    for step in (1, 2, 3, 4, 5):
        learn(built, step)
    assert made_by(built) == {1: 0, 2: 0, 3: 2, 4: 2, 5: 4}


def test_those_of_several_steps_are_under_way_and_none_over_a_checkpoint(trainer: Any) -> None:
    built = trainer(3, steps=9, checkpoint_every=5)
    for step in range(1, 10):
        learn(built, step)
    assert made_by(built) == {1: 0, 2: 0, 3: 0, 4: 0, 5: 1, 6: 5, 7: 5, 8: 5, 9: 5}
    assert "wait" not in built.rollouts.events, "what an update finds unfinished goes on with the new weights"
    assert [event for event in built.rollouts.events if event == "save"] == ["save"] * 2


def test_nothing_is_made_ahead_of_the_end_by_tokens(trainer: Any) -> None:
    built = trainer(1, steps=9, max_tokens=100)
    learn(built, 1)
    learn(built, 2)  # spends the last of them
    assert made_by(built) == {1: 0, 2: 0}


def test_a_job_makes_room_with_the_first_step_that_nothing_is_made_ahead_of(trainer: Any) -> None:
    built = trainer(1, steps=9)
    learn(built, 1)
    built._compute_old_log_prob = lambda: setattr(built._session.reporter, "preempted", True)
    learn(built, 2)  # told while it learns, when the samples of step 3 are made already
    assert (built._session.schedule.leaves_at, "save" in built.rollouts.events) == (None, False)
    learn(built, 3)
    assert (built._session.schedule.leaves_at, built.rollouts.events[-2:]) == (3, ["save", "wait"])
    assert made_by(built) == {1: 0, 2: 0, 3: 1}


def test_a_job_makes_room_once_what_is_under_way_is_learned_from(trainer: Any) -> None:
    built = trainer(3, steps=20)
    learn(built, 1)
    built._session.reporter.preempted = True
    for step in (2, 3, 4):  # drawn already
        assert built._session.schedule.leaves_at is None
        learn(built, step)
    assert (built._session.schedule.leaves_at, max(built.rollouts.submitted)) == (4, 4)
    assert "save" in built.rollouts.events


@pytest.mark.parametrize("weights", [(1, "sha256:2"), (0, "sha256:1")])
def test_a_sample_of_other_weights_than_it_says_ends_the_attempt(weights: tuple[int, str], trainer: Any) -> None:
    built = trainer(1, steps=9)
    learn(built, 1)
    learn(built, 2)
    with pytest.raises(DataLoss, match="step 3: a sample is of"):
        learn(built, 3, weights)  # it is of sha256:1


def test_the_engines_probabilities_are_compared_where_samples_are_fresh(trainer: Any) -> None:
    built = trainer(1, steps=9)
    learn(built, 1)
    with pytest.raises(DataLoss, match="does not compute with the trained weights"):
        built._check_probabilities({GAP_MEAN: 0.5}, GAP_MEAN)
    learn(built, 2)
    built._check_probabilities({GAP_MEAN: 0.5}, GAP_MEAN)


def test_a_curriculum_learns_from_a_step_before_the_next_is_drawn(trainer: Any) -> None:
    built = trainer(1, steps=4, checkpoint_every=2)
    built._draws = SimpleNamespace(learn=lambda evidence: {"stage": float(evidence[0].place)})
    for step in (1, 2, 3):
        learn(built, step)
    assert built._reported == {"stage": 4.0}
    events = [event for event in built.rollouts.events if not event.startswith(("update", "wait"))]
    one = ["generate 1", "evidence 1", "generate 2", "evidence 2", "save"]
    assert events == [*one, "generate 3", "evidence 3", "generate 4", "evidence 4"]


@pytest.mark.parametrize(
    ("trajectories", "ranks", "prompts"), [(64, 1, 4), (65, 1, 5), (60, 1, 4), (100, 1, 7), (40, 1, 3), (65, 3, 6)]
)
def test_a_step_has_as_many_updates_however_often_its_episodes_branch(
    trainer: Any, trajectories: int, ranks: int, prompts: int
) -> None:
    """Sixteen prompts of four samples, in four updates."""
    hyper = Hyperparameters(batch_size=16, mini_batch_size=4, group_size=4)
    built = trainer(0)
    built._session.job = SimpleNamespace(
        spec=SimpleNamespace(hyperparameters=hyper, resources=SimpleNamespace(ranks=ranks))
    )
    built.config.actor_rollout_ref = SimpleNamespace(rollout=SimpleNamespace(n=4), actor=SimpleNamespace())
    built._fit_updates(trajectories)
    assert built.config.actor_rollout_ref.actor.ppo_mini_batch_size == prompts


def test_verls_loop_in_another_order_is_refused(trainer: Any) -> None:
    built = trainer(0, steps=3)
    built.global_steps = 1
    with pytest.raises(AssertionError):
        built.on_step_end()  # before there are samples
    built.prepare_step()
    with pytest.raises(AssertionError):
        built.on_step_end()  # before they are learned from
    built._save_checkpoint()
    assert built.rollouts.events == ["generate 1"]
    assert built._state == Generating(built._moves, 1, 1)
