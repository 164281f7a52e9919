"""What Ratchet composes for 1, 8 and 2 x 8 GPUs, as verl's own validators read it."""

from pathlib import Path

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

import torch
import verl.utils.model
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_and_add_to_batch
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass, validate_config

from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import Resources
from trainer_service.verl import config
from trainer_service.verl.rank.patches import value_head
from trainer_service.verl.runtime import compose_config

pytestmark = pytest.mark.verl

STARTER = Path(__file__).parents[4] / "models/starter"
CLUSTERS = {"1": (1, 1), "8": (1, 8), "2x8": (2, 8)}


@pytest.fixture(params=[True, False], ids=["flash-attn", "sdpa"])
def flash_attention(request, monkeypatch):
    monkeypatch.setattr(config, "has_flash_attention", lambda: request.param)
    return request.param


@pytest.fixture(params=CLUSTERS)
def make_gpu_job(request, make_job, make_complete_spec):
    """`make_gpu_job(algorithm, **hyperparameters)` on as many GPUs as the test's parameter says, in bfloat16."""
    nodes, each = CLUSTERS[request.param]

    def make(algorithm, **hyperparameters):
        resources = Resources(nodes=nodes, accelerators_per_node=each, device="cuda")
        chosen = Hyperparameters(**hyperparameters)
        spec = make_complete_spec(algorithm=algorithm, resources=resources, hyperparameters=chosen)
        job = make_job(spec, dtype="bfloat16")
        return job.model_copy(update={"base_path": str(STARTER)})

    return make


def assert_attention(model, flash_attention):
    assert model.hf_config._attn_implementation == ("flash_attention_2" if flash_attention else "sdpa")
    assert model.use_remove_padding == flash_attention


@pytest.mark.parametrize("algorithm", [name for name, row in ALGORITHMS.items() if row.is_online])
def test_verl_takes_what_is_composed(make_gpu_job, flash_attention, algorithm):
    job = make_gpu_job(algorithm, kl_coefficient=0.01)
    composed = compose_config("ppo_trainer", config.rl_overrides(job, None))
    assert need_reference_policy(composed)
    assert need_critic(composed) == ALGORITHMS[algorithm].has_critic
    validate_config(composed, use_reference_policy=True, use_critic=need_critic(composed))
    OmegaConf.resolve(composed)
    assert composed.trainer.nnodes * composed.trainer.n_gpus_per_node == job.spec.resources.ranks

    parts = composed.actor_rollout_ref
    actor, rollout, model = (omega_conf_to_dataclass(parts[part]) for part in ("actor", "rollout", "model"))
    reference = omega_conf_to_dataclass(parts.ref.fsdp_config)
    assert (actor.strategy, reference.strategy, rollout.dtype) == ("fsdp2", "fsdp2", "bfloat16")
    assert actor.fsdp_config.mixed_precision["param_dtype"] == "bf16"
    assert_attention(model, flash_attention)
    omega_conf_to_dataclass(composed.algorithm)
    assert composed.algorithm.rollout_correction.rollout_is == "token"
    if need_critic(composed):
        critic = omega_conf_to_dataclass(composed.critic)
        assert critic.strategy == "fsdp2"
        assert_attention(critic.model, flash_attention)


def test_verl_takes_what_is_composed_for_examples(make_gpu_job, flash_attention):
    job = make_gpu_job("sft")
    composed = compose_config("sft_trainer_engine", config.sft_overrides(job, None))
    OmegaConf.resolve(composed)
    parts = {part: omega_conf_to_dataclass(composed[part]) for part in ("model", "engine", "optim", "checkpoint")}
    assert parts["engine"].strategy == "fsdp2"
    assert composed.data.train_batch_size % job.spec.resources.ranks == 0
    assert_attention(parts["model"], flash_attention)


def test_samples_are_weighted_by_how_likely_the_trainer_finds_them(make_job):
    composed = compose_config("ppo_trainer", config.rl_overrides(make_job(dtype="bfloat16"), None))
    trained, sampled = torch.log(torch.tensor([[0.5, 0.4, 0.9]])), torch.log(torch.tensor([[0.5, 0.5, 0.1]]))
    batch = {"old_log_probs": trained, "rollout_log_probs": sampled, "response_mask": torch.ones(1, 3)}
    data, _ = compute_rollout_correction_and_add_to_batch(
        DataProto.from_single_dict(batch), composed.algorithm.rollout_correction
    )
    assert data.batch["rollout_is_weights"].tolist() == [pytest.approx([1.0, 0.8, 2.0])]
    assert data.batch["response_mask"].tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_critic_has_the_attention_of_its_config_and_the_same_head_again(monkeypatch, make_job, attention):
    for name, value in make_job().to_env().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(verl.utils.model, "load_valuehead_model", None)
    value_head.apply()
    model = omega_conf_to_dataclass(
        {
            "_target_": "verl.workers.config.HFModelConfig",
            "path": str(STARTER),
            "override_config": {"attn_implementation": attention},
        }
    )
    made = [
        verl.utils.model.load_valuehead_model(str(STARTER), torch.float32, model.hf_config, False) for _ in range(2)
    ]
    assert made[0].config._attn_implementation == attention
    assert torch.equal(made[0].score.weight, made[1].score.weight)
