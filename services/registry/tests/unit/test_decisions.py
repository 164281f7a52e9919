"""A gate judges by problems that training never saw, and each try on them costs confidence."""

import pytest

from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import Estimate
from registry_service.domain.evidence import SetComparison
from registry_service.domain.gate import Gate, GateSpec, State
from registry_service.domain.rules import GateRules, Guard
from registry_service.domain.version import Lineage, VersionSpec

from ..conftest import ModelFolder, Registry, comparison, starter

SPEC = GateSpec(starter(2), "eval_2", "eval_1")


async def prepare(registry: Registry, model_folder: ModelFolder, *lineages: Lineage) -> None:
    """starter@1, the champion, and one version for each lineage, each measured: eval_1, eval_2, ..."""
    for seed, lineage in enumerate((Lineage(), *lineages), 1):
        spec = VersionSpec("starter", str(model_folder(f"source{seed}", seed)), lineage)
        fingerprints = [f"{lineage.data_digest}/{index}" for index in range(3)] if lineage.data_digest else []
        made = await registry.service.versions.create(spec, "", fingerprints)
        [version] = await registry.settle(made)
        registry.evaluations.measure(f"eval_{seed}", version)
    await registry.point("champion", 1)


def failure(gate: Gate) -> str:
    assert gate.state is State.FAILED
    assert gate.failure is not None
    assert gate.failure.code == "FAILED_PRECONDITION"
    return gate.failure.message


async def test_a_guard_refuses_what_the_target_would_let_pass(registry: Registry, model_folder: ModelFolder) -> None:
    lost = SetComparison("mbpp", comparison(Estimate(-0.08, -0.12, -0.04)))
    registry.evaluations.sets = {"mbpp": lost}
    await prepare(registry, model_folder, Lineage())
    rules = GateRules("composed/test", (Guard("mbpp", 0.02),))
    gate = await registry.gate(GateSpec(starter(2), "eval_2", "eval_1", rules=rules))
    assert gate.state is State.REFUSED
    assert "on mbpp it is -0.080" in gate.reason
    assert gate.comparison == comparison(registry.evaluations.difference)
    assert gate.digests == ("sha256:d",)


async def test_rules_about_a_set_that_was_not_measured_decide_nothing(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, Lineage())
    gate = await registry.gate(GateSpec(starter(2), "eval_2", "eval_1", rules=GateRules("mbpp")))
    assert "did not measure mbpp, but composed/test" in failure(gate)
    assert gate.tries == 0


async def test_each_try_is_numbered_and_costs_confidence(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage())
    registry.evaluations.difference = Estimate(0.0, -0.1, 0.1)
    gates = [await registry.gate(SPEC) for _ in range(3)]
    assert [(gate.tries, gate.state) for gate in gates] == [(number, State.REFUSED) for number in (1, 2, 3)]
    assert [confidence for confidence, _ in registry.evaluations.asked] == pytest.approx([0.95, 0.975, 1 - 0.05 / 6])
    assert gates[1].comparison is not None
    assert gates[1].comparison.confidence == 0.975
    registry.evaluations.measure("eval_1", await registry.service.versions.get(starter(1)), "sha256:fresh")
    registry.evaluations.measure("eval_2", await registry.service.versions.get(starter(2)), "sha256:fresh")
    assert (await registry.gate(SPEC)).tries == 1, "fresh problems are judged afresh"


async def test_a_set_that_the_candidate_was_trained_on_does_not_judge_it(
    registry: Registry, model_folder: ModelFolder
) -> None:
    await prepare(registry, model_folder, Lineage(data_digest="sha256:d"))
    message = failure(await registry.gate(SPEC))
    assert message.startswith("starter@2 was trained on composed/test")


async def test_what_a_base_learned_the_candidate_knows(registry: Registry, model_folder: ModelFolder) -> None:
    lineages = (Lineage(data_digest="sha256:d"), Lineage(base=VersionRef("starter", 2), data_digest="sha256:other"))
    await prepare(registry, model_folder, *lineages)
    assert "trained on composed/test" in failure(await registry.gate(GateSpec(starter(3), "eval_3", "eval_1")))


async def test_a_base_that_is_gone_is_no_obstacle(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage(base=VersionRef("starter", 9)))
    assert (await registry.gate(SPEC)).state is State.PASSED


async def test_a_set_that_shares_problems_with_training_does_not_judge(
    registry: Registry, model_folder: ModelFolder
) -> None:
    registry.evaluations.fingerprints = frozenset({"sha256:train/0", "sha256:train/2", "another"})
    await prepare(registry, model_folder, Lineage(data_digest="sha256:train"))
    message = failure(await registry.gate(SPEC))
    assert message.startswith("starter@2 was trained on 2 of the 200 problems of composed/test")
    again = await registry.gate(SPEC)
    assert again.tries == 1, "what could not be decided was no try"


async def test_too_few_problems_judge_nothing(registry: Registry, model_folder: ModelFolder) -> None:
    await prepare(registry, model_folder, Lineage())
    registry.evaluations.sets = {"composed/test": SetComparison("composed/test", comparison(Estimate(1, 0.5, 1), 9))}
    message = failure(await registry.gate(SPEC))
    assert message == "composed/test has 9 independent problems: a gate needs 10 or more"
