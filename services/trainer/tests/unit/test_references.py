from typing import Any

import pytest

from ratchet_kit.faults import Faults
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, RewardRef, VersionRef
from ratchet_rewards import Component, Lookup, Registered, Reward
from trainer_service.domain.inputs.found import Found, FoundModel
from trainer_service.domain.inputs.references import References
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec

from ..memory import MemoryEvaluations, MemoryFolders, MemoryPlugins, MemoryProblems, MemoryRegistry, MemoryRewards

STARTER = FoundModel(Location("/models/starter"), "/models/starter", 7_000_000, max_tokens=256)
STARTER_1 = VersionRef("starter", 1)


@pytest.fixture
def references() -> References:
    version = FoundModel(STARTER_1, STARTER.uri)
    registry = MemoryRegistry(dict.fromkeys(("starter@1", "starter:champion", "starter"), version))
    sets = {"composed/train": "sha256:t", "composed/validation": "sha256:v", "mine.jsonl": "sha256:m"}
    rewards = MemoryRewards({"brevity": ["print([1])", "print([2])"]})
    folders = MemoryFolders({STARTER.uri: STARTER})
    return References(registry, rewards, folders, MemoryProblems(sets), MemoryPlugins(), MemoryEvaluations())


async def find(references: References, spec: RunSpec) -> tuple[Found, set[str]]:
    """What was found, and the fields at fault."""
    faults = Faults()
    found = await references.find(spec, faults.under("spec"))
    return found, {fault.field for fault in faults.violations}


@pytest.mark.parametrize("base", [STARTER_1, AliasRef("starter", "champion"), BareModel("starter")])
async def test_a_version_has_the_registrys_name_and_its_folders_size(
    references: References, base: AnyModel, make_spec: Any
) -> None:
    found, at_fault = await find(references, make_spec(base=base))
    assert found.base == FoundModel(STARTER_1, STARTER.uri, STARTER.size_bytes, STARTER.max_tokens)
    assert not at_fault


@pytest.mark.parametrize("base", [Location("/nowhere"), VersionRef("starter", 9)])
async def test_a_base_that_leads_nowhere_is_named(references: References, base: AnyModel, make_spec: Any) -> None:
    found, at_fault = await find(references, make_spec(base=base))
    assert (found.base, at_fault) == (None, {"spec.base"})


async def test_a_reward_model_is_found_as_a_base_is(references: References, make_spec: Any) -> None:
    def rewarded(model: AnyModel) -> RunSpec:
        return make_spec(reward=Reward(components=(Component("tests_passed"), Component("preference", model=model))))

    found, at_fault = await find(references, rewarded(AliasRef("starter", "champion")))
    assert (found.reward_model and found.reward_model.ref, at_fault) == (STARTER_1, set())
    found, at_fault = await find(references, rewarded(Location("/nowhere")))
    assert (found.reward_model, at_fault) == (None, {"spec.reward.components[1].model"})


async def test_a_base_that_could_not_be_read_is_named_by_who_read_it(references: References, make_spec: Any) -> None:
    found, at_fault = await find(references, make_spec(base=None))
    assert (found.base, at_fault) == (None, set())


async def test_sets_that_lead_nowhere_are_named(references: References, make_spec: Any) -> None:
    spec = make_spec(problems=ProblemSetRef("", limit=0), validation_problems=ProblemSetRef("nothing"))
    _, at_fault = await find(references, spec)
    assert at_fault == {"spec.problems.name", "spec.problems.limit", "spec.validation_problems.name"}


async def test_a_set_with_splits_is_validated_on_its_own(references: References, make_spec: Any) -> None:
    found, _ = await find(references, make_spec())
    assert found.validation_problems is not None
    assert found.validation_problems.ref == ProblemSetRef("composed/validation", digest="sha256:v")
    own, at_fault = await find(references, make_spec(problems=ProblemSetRef("mine.jsonl")))
    assert (own.validation_problems, at_fault) == (None, set())


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("composed/train", ProblemSetRef("composed/validation")),
        ("composed/test", None),
        ("/data/train", None),
        ("./train", None),
        ("/data/train.jsonl", None),
    ],
)
def test_only_a_named_training_split_has_a_validation_split(name: str, split: ProblemSetRef | None) -> None:
    assert ProblemSetRef(name, limit=3).validation_split == split


@pytest.mark.parametrize("name", ["brevity", "brevity@2"])
async def test_rewards_of_the_registry_are_found_by_name_and_by_number(
    references: References, name: str, make_spec: Any
) -> None:
    rewards = (Reward(name), Reward(components=(Component("style"), Component(name))))
    for reward in rewards:
        found, at_fault = await find(references, make_spec(reward=reward))
        newest = Registered(RewardRef("brevity", 2), "print([2])")
        assert found.rewards == Lookup({RewardRef.parse(name): newest, newest.ref: newest})
        assert not at_fault


async def test_what_the_registry_has_not_is_kept_for_who_checks(references: References, make_spec: Any) -> None:
    components = (Component("brevity@3"), Component("loud"), Component("No Name"), Component("tests_passed"))
    found, at_fault = await find(references, make_spec(reward=Reward(components=components)))
    assert {str(ref) for ref in found.rewards.missing} == {"brevity@3", "loud"}
    assert not at_fault
