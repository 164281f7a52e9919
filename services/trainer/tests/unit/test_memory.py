"""How training is made to fit, and what is said where it cannot."""

from dataclasses import replace
from typing import Any

import pytest

from ratchet_kit.names import VersionRef
from ratchet_kit.usage import Prices
from trainer_service.domain.create.memory import MOST_TOKENS, Training, fitting, forecast_of, scoring_bytes, too_large
from trainer_service.domain.inputs.found import Found, FoundModel, Shape
from trainer_service.domain.spec.limits import GIB, Limits
from trainer_service.domain.spec.spec import Passes

SMOLLM2 = Shape(parameters=134_515_008, layers=30, hidden=576, inner=1536, vocabulary=49152)
STARTER = Shape(parameters=2_000_000, layers=4, hidden=192, inner=512, vocabulary=512)
LARGE = Shape(parameters=7_615_616_512, layers=28, hidden=3584, inner=18944, vocabulary=152064)


def training(shape: Shape, tokens: int = 416, ranks: int = 1, device: str = "cpu", width: int = 4) -> Training:
    return Training(shape, tokens, ranks, ranks, device, width)


def test_a_small_model_makes_long_passes_and_keeps_its_activations() -> None:
    assert fitting(training(STARTER), 12 * GIB) == Passes(MOST_TOKENS["cpu"], recomputed=False)


def test_less_memory_means_shorter_passes_and_then_activations_made_twice() -> None:
    chosen = [fitting(training(SMOLLM2), limit * GIB) for limit in (32, 16, 10)]
    assert [passes.recomputed for passes in chosen] == [False, False, True]
    assert chosen[0].tokens > chosen[1].tokens
    taken = [training(SMOLLM2).bytes(passes) for passes in chosen]
    assert taken == sorted(taken, reverse=True)


def test_what_is_chosen_already_stays() -> None:
    assert fitting(training(SMOLLM2), 32 * GIB, tokens=777).tokens == 777
    assert fitting(training(SMOLLM2), 32 * GIB, recomputed=True).recomputed


def test_what_was_sent_is_kept_where_changes_are_sent_next() -> None:
    """In float32 one copy of four bytes a value; in bfloat16 two of two bytes, and half the activations."""
    passes, no_layers = Passes(0, recomputed=True), Shape(1_000_000, layers=0, hidden=0, inner=0, vocabulary=0)
    assert training(no_layers).bytes(passes) == training(no_layers, width=2).bytes(passes)
    beside = Training(no_layers, 416, 1, 1, "cpu", 4, max_staleness=1)
    assert beside.bytes(passes) == training(no_layers).bytes(passes) + 4_000_000
    on_gpu = [training(no_layers, device="cuda", width=width).bytes(passes) for width in (4, 2)]
    assert on_gpu[0] == on_gpu[1] < training(no_layers).bytes(passes) - 4_000_000


def test_a_reference_and_a_critic_take_their_part() -> None:
    passes = Passes(1024, recomputed=True)
    alone = training(SMOLLM2).bytes(passes)
    both = Training(SMOLLM2, 416, 1, 1, "cpu", 4, has_reference=True, has_critic=True).bytes(passes)
    assert both - alone == (2 + 16) * SMOLLM2.parameters


def test_lora_keeps_a_base_that_has_neither_gradients_nor_moments() -> None:
    """Beside it the adapters are all that is trained; its reference is the policy without them."""
    passes = Passes(1024, recomputed=True)
    whole = Training(SMOLLM2, 416, 1, 1, "cpu", 4, has_reference=True)
    of_rank = replace(whole, lora_rank=16)
    adapters = 30 * 16 * (4 * (576 + 576) + 3 * (576 + 1536))
    head = 49152 * 576 * 4
    assert whole.bytes(passes) - of_rank.bytes(passes) == (12 + 2) * SMOLLM2.parameters - 16 * adapters + head


def test_lora_is_proposed_where_all_weights_are_too_many() -> None:
    counted = training(SMOLLM2)
    assert "train with LoRA (lora_rank=16) or take a smaller base" in too_large(counted, Passes(416, True), 4 * GIB)
    said = too_large(replace(counted, lora_rank=16), Passes(416, True), GIB)
    assert "135 million parameters and what LoRA learns" in said
    assert "; take a smaller base" in said
    assert "LoRA" not in too_large(replace(counted, lora_rank=None), Passes(416, True), 4 * GIB)  # a reward model


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_reward_model_takes_its_weights_and_a_layer_of_a_pass(device: str) -> None:
    passes = Passes(1024, recomputed=True)
    scoring = scoring_bytes(SMOLLM2, 0, activation_bytes=4)
    assert scoring == 4 * SMOLLM2.parameters + 4096 * 4 * (12 * 576 + 4 * 1536)
    beside = Training(SMOLLM2, 416, 1, 1, device, 4, reward_model_bytes=scoring)
    assert beside.bytes(passes) == training(SMOLLM2, device=device).bytes(passes) + scoring
    assert "of them the reward model's" in too_large(beside, passes, GIB)
    assert scoring_bytes(None, 10, activation_bytes=4) == 20


def test_ranks_share_weights_but_not_activations() -> None:
    passes = Passes(1024, recomputed=True)
    one, eight = (training(LARGE, ranks=ranks, device="cuda", width=2).bytes(passes) for ranks in (1, 8))
    assert one > 110 * GIB
    assert 35 * GIB < eight < 80 * GIB


@pytest.mark.parametrize(
    ("limit", "device", "change"),
    [(40, "cpu", "take a smaller base"), (40, "cuda", "take more accelerators, which share the weights")],
)
def test_what_is_too_large_is_said_with_numbers(limit: int, device: str, change: str) -> None:
    counted = training(LARGE, device=device)
    said = too_large(counted, fitting(counted, limit * GIB), limit * GIB)
    assert "7616 million parameters" in said
    assert "a run may take 40.0 GiB" in said
    assert change in said


def test_long_sequences_are_what_is_to_change_where_the_weights_fit() -> None:
    counted = training(SMOLLM2, tokens=100_000)
    assert "take fewer than 100000 tokens" in too_large(counted, fitting(counted, 6 * GIB), 6 * GIB)


def test_ones_own_choice_is_what_is_to_change_where_ours_would_fit() -> None:
    counted = training(SMOLLM2)
    said = too_large(counted, Passes(65536, recomputed=False), 8 * GIB)
    assert "leave micro_batch_tokens and gradient_checkpointing to the service" in said


def test_a_step_takes_its_operations_and_what_is_beside_them() -> None:
    passes = Passes(1024, recomputed=False)
    each = SMOLLM2.parameters * 416 * 32 / 50e9

    def seconds(counted: Training, passes: Passes = passes, again: bool = False, cores: int | None = 1) -> float | None:
        return counted.step_seconds(32, passes, again, cores)

    assert seconds(training(SMOLLM2)) == pytest.approx(2 + 8 * each)
    assert seconds(training(SMOLLM2), again=True) == pytest.approx(2 + 10 * each)
    assert seconds(training(SMOLLM2), Passes(1024, recomputed=True)) == pytest.approx(2 + 10 * each)
    assert seconds(replace(training(SMOLLM2), has_reference=True, has_critic=True)) == pytest.approx(2 + 20 * each)
    # Ranks of one machine share its cores; those of another have their own.
    assert seconds(training(SMOLLM2, ranks=2), cores=4) == pytest.approx(2 + 2 * each)
    assert seconds(replace(training(SMOLLM2, ranks=4), ranks_per_node=2), cores=4) == pytest.approx(2 + each)
    assert seconds(training(SMOLLM2), cores=64) == seconds(training(SMOLLM2), cores=16)
    assert seconds(training(LARGE, device="cuda")) is None
    assert seconds(training(SMOLLM2), cores=None) is None


def test_a_forecast_has_the_most_that_the_steps_cost_where_there_are_prices(make_complete_spec: Any) -> None:
    base = FoundModel(VersionRef("starter", 1), "/artifacts/1", 7_000_000, max_tokens=300, shape=SMOLLM2)
    spec = make_complete_spec(steps=20)
    plain = forecast_of(spec, Found(base), Limits(cores=2))
    assert plain is not None
    assert plain.step_time is not None
    assert plain.cost is None
    found = forecast_of(spec, Found(base), Limits(cores=2, prices=Prices(currency="EUR", cpu_hour=3600.0)))
    assert found is not None
    assert (found.cost, found.currency) == (pytest.approx(20 * 2 * plain.step_time.total_seconds(), rel=0.02), "EUR")
    tokens = forecast_of(spec, Found(base), Limits(prices=Prices(currency="EUR", million_completion_tokens=1e6)))
    assert tokens is not None
    assert tokens.cost == 20 * spec.hyperparameters.samples * spec.hyperparameters.max_response_tokens
