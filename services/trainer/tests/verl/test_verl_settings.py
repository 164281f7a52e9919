"""The settings that a caller may give are settings that verl has, and each is one value of its config."""

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

from hydra import compose, initialize_config_module
from omegaconf import DictConfig, OmegaConf

from trainer_service.domain.spec import verl_settings

pytestmark = pytest.mark.verl


@pytest.mark.parametrize(
    ("config", "settings"),
    [("ppo_trainer", verl_settings.RL), ("sft_trainer_engine", verl_settings.EXAMPLES)],
)
def test_verl_has_each(config, settings):
    with initialize_config_module("verl.trainer.config", version_base=None):
        composed = compose(config)
    missing = object()
    found = {name: OmegaConf.select(composed, name, default=missing) for name in settings}
    assert [name for name, value in found.items() if value is missing or isinstance(value, DictConfig)] == []
