"""Plug-ins of a spec: pinned at Create, or refused with what there is."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet_environments import EnvironmentSpec
from ratchet_kit.allowed_sources import Places
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_rewards import Component, Reward
from trainer_service.adapters.plugins import InstalledPlugins
from trainer_service.adapters.problem_sets import LibraryProblemSets
from trainer_service.domain.inputs.references import References
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.plugins import Plugin, missing
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec

HARDEST, PLAIN = Plugin("sampler", "hardest"), Plugin("loss", "plain")


async def faults(trainer: Any, spec: RunSpec) -> dict[str, str]:
    with pytest.raises(InvalidArgument) as refused:
        await trainer.create("r1", spec)
    return {fault.field: fault.description for fault in refused.value.violations}


async def test_the_run_says_which_code_it_takes(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(plugins=(HARDEST,)))
    assert run.spec.plugins == (replace(HARDEST, package="pack", version="1.0", digest="sha256:h"),)


async def test_what_is_not_there_is_refused_with_what_is(trainer: Any, make_spec: Any) -> None:
    assert await faults(trainer, make_spec(plugins=(Plugin("sampler", "easiest"), Plugin("advantage", "mine")))) == {
        "spec.plugins[0].name": "is not available: no sampler 'easiest' is installed; there are: hardest",
        "spec.plugins[1].name": "is not available: no advantage 'mine' is installed; there are: median",
    }


async def test_what_the_operator_has_not_allowed_is_refused(trainer: Any, make_spec: Any) -> None:
    assert await faults(trainer, make_spec(plugins=(PLAIN,))) == {
        "spec.plugins[0].name": "is not available: the operator has not allowed it: the trainer started with "
        "RATCHET_TRAINER_PLUGINS=other,pack allows it; there is none (docs/plugins.md)"
    }


async def test_two_of_a_kind_one_of_none_and_those_of_sft_are_refused(trainer: Any, make_spec: Any) -> None:
    two = await faults(trainer, make_spec(plugins=(HARDEST, HARDEST, Plugin("9", "x"))))
    assert set(two) == {"spec.plugins[1].kind", "spec.plugins[2].kind"}
    assert set(await faults(trainer, make_spec(algorithm="sft", plugins=(HARDEST,)))) == {"spec.plugins"}


@pytest.mark.parametrize(
    "changes", [{"algorithm": "ppo"}, {"reward": Reward("balanced", combination="gdpo")}], ids=["critic", "gdpo"]
)
async def test_advantages_that_would_not_be_used_are_refused(
    trainer: Any, make_spec: Any, changes: dict[str, Any]
) -> None:
    spec = make_spec(plugins=(Plugin("advantage", "mine"),), **changes)
    assert "spec.plugins[0].kind" in await faults(trainer, spec)


async def test_a_loss_of_ones_own_has_no_other_beside_it(trainer: Any, make_spec: Any) -> None:
    setting = ("actor_rollout_ref.actor.policy_loss.loss_mode=gspo",)
    assert "spec.verl_overrides[0]" in await faults(trainer, make_spec(plugins=(PLAIN,), verl_overrides=setting))


async def test_a_package_or_a_name_allows_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_draws.py").write_text("def hardest(problems, seed, number): return range(len(problems))")
    info = tmp_path / "my_draws-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-draws\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[ratchet.sampler]\nhardest = my_draws:hardest\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for allowed, expected in ((["My_Draws"], True), (["hardest"], True), (["other"], False), ([], False)):
        (found,) = await InstalledPlugins(allowed).installed()
        assert (found.plugin.name, found.plugin.package, found.plugin.version) == ("hardest", "my-draws", "2.0")
        assert found.allowed == expected


MEDIAN = Plugin("algorithm", "median")


async def test_an_algorithm_becomes_what_it_says_and_the_spec_goes_before_it(trainer: Any, make_spec: Any) -> None:
    chosen = Hyperparameters(clip_high=0.25)
    run = await trainer.create("r1", make_spec(algorithm="", plugins=(MEDIAN,), hyperparameters=chosen))
    assert run.spec.algorithm == "rloo"
    assert (run.spec.hyperparameters.group_size, run.spec.hyperparameters.clip_high) == (4, 0.25)
    assert run.spec.verl_overrides == ("actor_rollout_ref.actor.shuffle=true",)
    assert [(one.kind, one.name, one.digest) for one in run.spec.plugins] == [
        ("algorithm", "median", "sha256:h"),
        ("advantage", "median", "sha256:h"),
    ]
    again = await trainer.create("r2", run.spec)
    assert again.spec == run.spec


async def test_an_algorithm_is_built_on_its_base(trainer: Any, make_spec: Any) -> None:
    said = await faults(trainer, make_spec(algorithm="grpo", plugins=(MEDIAN,)))
    assert said == {"spec.algorithm": "must be absent, or RLOO: the algorithm median is built on it"}
    missing = await faults(trainer, make_spec(algorithm="", plugins=(Plugin("algorithm", "mine"),)))
    assert missing == {"spec.plugins[0].name": "is not available: no algorithm 'mine' is installed; there are: median"}


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("[]", "must give a dict"),
        ("{'base': 'sft'}", "its base must be one of grpo, "),
        ("{'base': 'grpo', 'steps': 3}", "it has no field 'steps'"),
        ("{'base': 'grpo', 'hyperparameters': {'group': 3}}", "there is no hyperparameter 'group'"),
        ("{'base': 'grpo', 'hyperparameters': {'group_size': 'x'}}", "its group_size must be of the kind int"),
        ("{'base': 'grpo', 'loss': 3}", "its loss must be the name"),
        ("1 / 0", "the algorithm mine failed: ZeroDivisionError"),
    ],
)
async def test_what_an_algorithm_can_not_say_is_named(make_plugin: Any, says: str, reason: str) -> None:
    make_plugin("mine", f"def mine(): return {says}", algorithm="mine")
    with pytest.raises(InvalidArgument, match=reason):
        await InstalledPlugins(["mine"]).recipe("mine")


async def test_an_algorithm_says_what_it_is(make_plugin: Any) -> None:
    says = {
        "base": "dapo",
        "hyperparameters": {"learning_rate": 1, "kl_in_reward": False},
        "verl": {"critic.shuffle": True},
    }
    make_plugin("mine", f"def mine(): return {says}", algorithm="mine")
    assert await InstalledPlugins(["mine"]).recipe("mine") == Recipe(
        "dapo", Hyperparameters(learning_rate=1, kl_in_reward=False), ("critic.shuffle=true",)
    )


async def test_a_reward_that_is_a_plugin_is_pinned(trainer: Any, make_spec: Any) -> None:
    reward = Reward(components=(Component("tests_passed", 0.9), Component("plugin:short", 0.1)))
    run = await trainer.create("r1", make_spec(reward=reward))
    assert run.spec.reward.components[1].digest == "sha256:h"
    assert (await trainer.create("r2", make_spec(reward=Reward("plugin:short")))).spec.reward.components[0].digest


async def test_a_reward_that_is_no_plugin_here_is_refused(trainer: Any, make_spec: Any) -> None:
    for wrong in (Reward("plugin:long"), Reward(components=(Component("plugin:long"),))):
        said = await faults(trainer, make_spec(reward=wrong))
        assert set(said.values()) == {"is not available: no reward 'long' is installed; there are: short"}


async def test_an_environment_that_is_a_plugin_is_pinned(trainer: Any, make_spec: Any) -> None:
    run = await trainer.create("r1", make_spec(environment=EnvironmentSpec("plugin:hints")))
    assert run.spec.environment == EnvironmentSpec("plugin:hints", 3, "sha256:h")
    assert (await trainer.create("r2", run.spec)).spec == run.spec


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plugin:hint", "is not available: no environment 'hint' is installed; there are: hints"),
        ("plugin:", "must be one of edits, harness, tools; not 'plugin:'"),
        ("hints", "must be one of edits, harness, tools; not 'hints'"),
    ],
)
async def test_an_environment_that_is_no_plugin_here_is_refused(
    trainer: Any, make_spec: Any, name: str, reason: str
) -> None:
    assert await faults(trainer, make_spec(environment=EnvironmentSpec(name))) == {"spec.environment.name": reason}


async def test_an_environment_that_is_not_allowed_is_refused(make_plugin: Any, trainer: Any, make_spec: Any) -> None:
    make_plugin("mine", "def mine(problem, answers, result): return None", environment="mine")
    said = Faults()
    await looking(trainer, []).find(make_spec(environment=EnvironmentSpec("plugin:mine")), said)
    assert [fault.field for fault in said.violations] == ["environment.name"]
    assert "the trainer started with RATCHET_TRAINER_PLUGINS=mine allows it" in said.violations[0].description


def looking(trainer: Any, allowed: Sequence[str]) -> References:
    """With what is really installed."""
    ports = trainer.ports
    return References(
        ports.registry, ports.rewards, ports.folders, ports.problems, InstalledPlugins(allowed), ports.suites
    )


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nothing_of_that_name", "the environment mine cannot be imported: No module named"),
        ("1 / 0", "the environment mine cannot be imported: division by zero"),
        ("mine = 3", "the environment mine must be a function, as in its template"),
        (
            "def mine(problem, answers): return None",
            r"the environment mine must take \(problem, answers, result\), as in its template \(docs/plugins.md\): "
            "too many positional arguments",
        ),
        ("def mine(problem, answers, result, more): return None", "missing a required argument: 'more'"),
        ("import os\nos._exit(3)", "the environment mine has no answer: its process ended with 3"),
    ],
)
async def test_an_environment_that_can_not_be_called_is_refused(
    trainer: Any, make_spec: Any, make_plugin: Any, source: str, reason: str
) -> None:
    make_plugin("mine", source, environment="mine")
    said = Faults()
    found = await looking(trainer, ["mine"]).find(make_spec(environment=EnvironmentSpec("plugin:mine")), said)
    assert (found.environment, [fault.field for fault in said.violations]) == ("", ["environment.name"])
    assert re.search(reason, said.violations[0].description), said.violations[0].description


async def test_an_environment_that_can_be_called_is_found(trainer: Any, make_spec: Any, make_plugin: Any) -> None:
    make_plugin("mine", "def mine(problem, answers, result, *, more=1): return None", environment="mine")
    said = Faults()
    found = await looking(trainer, ["mine"]).find(make_spec(environment=EnvironmentSpec("plugin:mine")), said)
    assert (found.environment[:7], said.violations) == ("sha256:", ())


async def test_data_and_rewards_are_named_where_they_are_used(trainer: Any, make_spec: Any) -> None:
    said = await faults(trainer, make_spec(plugins=(Plugin("reward", "short"),)))
    assert said == {"spec.plugins[0].kind": "must be one of SAMPLER, LOSS, ADVANTAGE, ALGORITHM; not 'REWARD'"}


async def test_a_split_for_validation_that_a_plugin_breaks_on_is_named(
    trainer: Any, make_spec: Any, make_plugin: Any
) -> None:
    row = {"prompt": "Add.", "entry_point": "f", "tests": [{"args": [1], "expected": 2}]}
    make_plugin("mine", f"def mine(split): return {{'train': [{row}]}}[split]", dataset="mine")
    sets = LibraryProblemSets(Places([]), InstalledPlugins(["mine"]), trials=None, datasets=None)  # type: ignore[arg-type]
    ports = trainer.ports
    references = References(ports.registry, ports.rewards, ports.folders, sets, ports.plugins, ports.suites)
    said = Faults()
    found = await references.find(make_spec(problems=ProblemSetRef("plugin:mine/train")), said)
    assert found.problems is not None
    assert [(fault.field, fault.description) for fault in said.violations] == [
        ("validation_problems.name", "cannot be read: the dataset mine failed: KeyError: 'validation'")
    ]


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("loss", "def mine(old_log_prob): pass", "the loss mine must take (old_log_prob, log_prob, advantages, resp"),
        ("loss", "def mine(*, log_prob, **others): pass", ""),
        ("sampler", "def mine(): pass", "the sampler mine must take (problems, seed, number), as in its template"),
        ("sampler", "def mine(a, /, b, c, d=1): pass", ""),
        ("sampler", "def mine(problems, seed, number, earned): pass", ""),
        ("sampler", "def mine(problems, seed, number, other, earned): pass", "the sampler mine must take"),
        ("sampler", "class mine:\n    def __init__(self, one): pass", "the sampler mine must take"),
        ("advantage", "def mine(token_level_rewards, response_mask): pass", "the advantage mine must take"),
        ("reward", "def mine(a, b): pass", "the reward mine must take (samples), as in its template"),
        ("reward", "from elsewhere import mine", ""),
        ("reward", "import math\n@math.wrapped\ndef mine(a, b): pass", ""),
        ("reward", "def other(samples): pass", "the reward mine cannot be imported: mod.py has no mine"),
        (
            "reward",
            "def mine(:",
            "the reward mine cannot be imported: mod.py is not valid Python: line 1: invalid syntax",
        ),
    ],
)
async def test_what_its_source_shows_to_be_wrong_is_refused_before_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, source: str, says: str
) -> None:
    (tmp_path / "mod.py").write_text(source)
    install(tmp_path, "mod", f"[ratchet.{kind}]\nmine = mod:mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = await InstalledPlugins(["mod"]).installed()
    assert missing(kind, "mine", found).startswith(says)
    assert bool(says) == bool(missing(kind, "mine", found))


async def test_one_whose_module_is_not_in_its_package_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("raise SystemExit")
    (tmp_path / "pack" / "losses.py").write_text("def mine(a): pass")
    install(tmp_path, "pack", "[ratchet.reward]\nthere = pack.losses:mine\ngone = pack.gone:mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = await InstalledPlugins(["pack"]).installed()
    assert missing("reward", "there", found) == ""
    assert missing("reward", "gone", found) == "the reward gone cannot be imported: there is no module pack.gone"


async def test_of_two_of_one_name_none_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("one", "other"):
        (tmp_path / f"{package}.py").write_text("def mine(samples): pass")
        install(tmp_path, package, f"[ratchet.reward]\nmine = {package}:mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = await InstalledPlugins(["one"]).installed()
    says = "several are called mine, of the packages one and other: uninstall, or rename, one of them"
    assert missing("reward", "mine", found) == says


def install(site: Path, package: str, entries: str) -> None:
    info = site / f"{package}-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(entries)
