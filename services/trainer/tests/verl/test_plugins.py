"""Plug-ins from their templates: found, composed into verl's real config, and used by it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="needs the trainer environment")

import torch
from omegaconf import OmegaConf
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo import core_algos
from verl.utils.config import omega_conf_to_dataclass, validate_config

from ratchet_kit.errors import DataLoss, InvalidArgument
from ratchet_kit.names import Location
from ratchet_problems import load
from trainer_service.domain.create import defaults
from trainer_service.domain.inputs.found import Found, FoundModel
from trainer_service.domain.spec import recipes
from trainer_service.domain.spec.limits import Limits
from trainer_service.domain.spec.plugins import Installed, Plugin, PluginKind
from trainer_service.job.plugins import entry_points
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.verl.config import PLUGIN_NAME, rl_overrides
from trainer_service.verl.driver.samplers import EarningSampler, PluginSampler, takes_earned
from trainer_service.verl.runtime import compose_config

pytestmark = pytest.mark.verl
STARTER = FoundModel(Location("/models/starter"), "/models/starter", 7_000_000, max_tokens=256)
PROBLEMS = load("composed/train", limit=8)


@pytest.fixture
def plugin(
    install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Plugin:
    """Of the kind that the test names."""
    name = f"my_{request.param}"
    site = install_plugin(request.param, name)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, name, raising=False)  # of another test
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:ratchet", "-p", "no:cacheprovider", f"test_{name}.py"]
    subprocess.run(
        command, cwd=site.parent / "made" / name, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True
    )  # its own test
    (found,) = entry_points.installed()
    assert (found.kind, found.name, found.package, found.version) == (request.param, name, name, "0.1.0")
    assert found.digest.startswith("sha256:")
    return found


def composed(plugin: Plugin, make_job: Any, make_complete_spec: Any) -> Any:
    job = make_job(make_complete_spec(plugins=(plugin,)))
    config = compose_config("ppo_trainer", rl_overrides(job, None))
    OmegaConf.resolve(config)
    validate_config(config, use_reference_policy=False, use_critic=False)
    return config


@pytest.mark.parametrize("plugin", ["sampler"], indirect=True)
def test_a_sampler_says_what_steps_draw_and_goes_on_where_it_was(plugin: Plugin) -> None:
    draw = entry_points.load([plugin], PluginKind.SAMPLER)
    assert draw is not None

    def loader() -> StatefulDataLoader:
        sampler = PluginSampler(draw, PROBLEMS, 3)
        return StatefulDataLoader(range(8), batch_size=3, sampler=sampler, drop_last=True, collate_fn=list)

    whole = loader()
    steps = list(islice(whole, 7))
    drawn = [PROBLEMS[place].difficulty for place in list(chain(*steps))[:16]]
    assert drawn == sorted(drawn[:8]) + sorted(drawn[8:])
    assert len(whole) == 2
    begun = loader()
    list(islice(begun, 4))
    resumed = loader()
    resumed.load_state_dict(begun.state_dict())
    assert list(islice(resumed, 3)) == steps[4:7]


@pytest.mark.parametrize("drawn", [[], [8], [-1], ["p0"]])
def test_a_sampler_that_draws_no_places_ends_the_run(drawn: Iterable[Any]) -> None:
    with pytest.raises(InvalidArgument, match="the sampler drew"):
        next(iter(PluginSampler(lambda problems, seed, number: drawn, PROBLEMS, 0)))


def test_a_sampler_that_takes_what_was_earned_goes_on_with_it() -> None:
    seen: list[Any] = []

    def draw(problems: Any, seed: int, number: int, earned: Any) -> Iterable[int]:
        """Two problems a pass: after the first, those that earned least."""
        seen.append((number, [(one["step"], one["place"], one["reward"]) for one in earned]))
        rewards = {one["place"]: one["reward"] for one in earned}
        return sorted(range(len(problems)), key=lambda place: rewards.get(place, 0.5))[:2]

    assert takes_earned(draw)
    assert not takes_earned(lambda problems, seed, number: [])

    def loader() -> tuple[EarningSampler, StatefulDataLoader]:
        sampler = EarningSampler(draw, PROBLEMS, 3)
        return sampler, StatefulDataLoader(range(8), batch_size=2, sampler=sampler, drop_last=True, collate_fn=list)

    sampler, steps = loader()
    drawn = iter(steps)
    assert next(drawn) == [0, 1]
    sampler.learn(1, [Evidence(0, 1.0, 0.0, 8, 0.9), Evidence(1, 0.0, 0.0, 8, 0.1)])
    state = steps.state_dict()
    assert next(drawn) == [1, 2]
    assert seen == [(0, []), (1, [(1, 0, 0.9), (1, 1, 0.1)])]
    _, resumed = loader()
    resumed.load_state_dict(state)
    assert next(iter(resumed)) == [1, 2]
    assert seen[2] == seen[1]
    with pytest.raises(InvalidArgument, match="drew nothing in pass 0"):
        next(iter(EarningSampler(lambda *_, earned: [], PROBLEMS, 0)))
    with pytest.raises(InvalidArgument, match="drew 9"):
        next(iter(EarningSampler(lambda *_, earned: [9], PROBLEMS, 0)))


@pytest.mark.parametrize("plugin", ["loss"], indirect=True)
def test_verl_takes_a_loss_by_its_name(plugin: Plugin, make_job: Any, make_complete_spec: Any) -> None:
    config = composed(plugin, make_job, make_complete_spec)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    loss = entry_points.load([plugin], PluginKind.LOSS)
    core_algos.register_policy_loss(PLUGIN_NAME)(loss)
    assert core_algos.get_policy_loss_fn(actor.policy_loss.loss_mode) is loss


@pytest.mark.parametrize("plugin", ["advantage"], indirect=True)
def test_verl_takes_advantages_by_their_name(plugin: Plugin, make_job: Any, make_complete_spec: Any) -> None:
    config = composed(plugin, make_job, make_complete_spec)
    estimate = entry_points.load([plugin], PluginKind.ADVANTAGE)
    core_algos.register_adv_est(PLUGIN_NAME)(estimate)
    found = core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator)
    advantages, _ = found(torch.tensor([[1.0], [0.0]]), torch.ones(2, 1), index=["a", "a"], config=config.algorithm)
    assert advantages.tolist() == [[0.5], [-0.5]]


def test_an_algorithm_is_its_loss_its_advantage_and_its_defaults(
    install_plugin: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch, make_job: Any, make_spec: Any
) -> None:
    monkeypatch.syspath_prepend(str(install_plugin("algorithm", "middling")))
    there = [Installed(one, allowed=True) for one in entry_points.installed()]
    recipe = recipes.read(entry_points.function_of(PluginKind.ALGORITHM, "middling")())
    spec = recipes.expanded(make_spec(algorithm="", plugins=(Plugin("algorithm", "middling"),)), recipe)
    complete = defaults.complete(spec, Found(STARTER, plugins=there), Limits(accelerators=4))
    assert [one.kind for one in complete.plugins if one.digest] == ["algorithm", "loss", "advantage"]
    config = compose_config("ppo_trainer", rl_overrides(make_job(complete), None))
    actor = config.actor_rollout_ref.actor
    assert (config.algorithm.adv_estimator, actor.policy_loss.loss_mode) == (PLUGIN_NAME, PLUGIN_NAME)
    assert (config.actor_rollout_ref.rollout.n, actor.optim.lr_scheduler_type) == (8, "cosine")
    for kind in (PluginKind.LOSS, PluginKind.ADVANTAGE):
        assert entry_points.load(complete.plugins, kind) is not None


@pytest.mark.parametrize("plugin", ["sampler"], indirect=True)
def test_other_code_than_that_of_the_run_is_not_run(plugin: Plugin, tmp_path: Path) -> None:
    file = tmp_path / "site" / f"{plugin.name}.py"
    file.write_text(file.read_text() + "\n# changed\n")
    with pytest.raises(DataLoss, match="not here as it was"):
        entry_points.load([plugin], PluginKind.SAMPLER)
    file.write_text("import nothing_of_that_name")
    (changed,) = entry_points.installed()
    with pytest.raises(InvalidArgument, match="cannot be imported: No module named"):
        entry_points.load([changed], PluginKind.SAMPLER)
