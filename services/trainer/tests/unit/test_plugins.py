"""Plug-ins of a spec: pinned at Create, or refused with what there is."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_rewards import Reward
from trainer_service.adapters.plugins import InstalledPlugins
from trainer_service.domain.plugins import Plugin
from trainer_service.domain.spec import RunSpec

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
        "spec.plugins[0].name": "leads nowhere: no sampler 'easiest' is installed; there are: hardest",
        "spec.plugins[1].name": "leads nowhere: no advantage 'mine' is installed; there is none (docs/plugins.md)",
    }


async def test_what_the_operator_has_not_allowed_is_refused(trainer: Any, make_spec: Any) -> None:
    assert await faults(trainer, make_spec(plugins=(PLAIN,))) == {
        "spec.plugins[0].name": "must be allowed by the operator: RATCHET_TRAINER_PLUGINS=other allows it; there is "
        "none (docs/plugins.md)"
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
