from trainer_service.verl.metrics import RL_NAMES, SFT_NAMES, memory, of_plugins, rename


def test_metrics_take_ratchets_names():
    renamed = rename({"critic/score/mean": 0.5, "timing_s/gen": 2.0, "perf/mfu/actor": 0.1}, RL_NAMES)
    assert renamed == {"reward_mean": 0.5, "time_generate_s": 2.0}


def test_the_penalised_kl_goes_before_the_sampled_one():
    assert rename({"actor/ppo_kl": 0.1, "actor/kl_loss": 0.2}, RL_NAMES) == {"kl": 0.2}
    assert rename({"actor/ppo_kl": 0.1}, RL_NAMES) == {"kl": 0.1}


def test_what_is_not_a_number_is_left_out():
    assert rename({"train/loss": float("nan"), "train/grad_norm": float("inf"), "train/lr": 1}, SFT_NAMES) == {
        "learning_rate": 1.0,
        "not_finite": 2.0,
    }
    assert rename({"critic/score/mean": float("nan")}, RL_NAMES) == {}


def test_the_memory_of_each_rank_is_a_metric():
    assert memory([5, 7]) == {"memory_bytes_max": 7.0, "memory_bytes_rank_0": 5.0, "memory_bytes_rank_1": 7.0}


def test_what_a_loss_of_ones_own_measured_is_kept() -> None:
    measured = {"actor/plugin/ratio": 1, "actor/plugin/broken": float("nan"), "actor/other": 2.0}
    assert of_plugins(measured) == {"plugin_ratio": 1.0}
