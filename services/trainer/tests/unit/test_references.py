from typing import Any

import pytest

from trainer_service.adapters.memory import MemoryFolders, MemoryProblems, MemoryRegistry
from trainer_service.domain.ports import FoundModel
from trainer_service.domain.references import Found, References, alias_parts, version_parts
from trainer_service.domain.spec import ModelRef, ProblemSetRef

STARTER = FoundModel("/models/starter", "/models/starter", 7_000_000, max_tokens=256)


@pytest.fixture
def references() -> References:
    version = FoundModel("starter@1", STARTER.uri)
    registry = MemoryRegistry({"starter@1": version, "starter:champion": version})
    sets = {"composed/train": "sha256:t", "composed/validation": "sha256:v", "mine.jsonl": "sha256:m"}
    return References(registry, MemoryFolders({STARTER.uri: STARTER}), MemoryProblems(sets))


def fields(found: Found) -> set[str]:
    return {fault.field for fault in found.faults}


@pytest.mark.parametrize("base", [ModelRef("version", "starter@1"), ModelRef("alias", "starter:champion")])
async def test_a_version_has_the_registrys_name_and_its_folders_size(
    references: References, base: ModelRef, make_spec: Any
) -> None:
    found = (await references.find(make_spec(base=base))).base
    assert found == FoundModel("starter@1", STARTER.uri, STARTER.size_bytes, STARTER.max_tokens)


@pytest.mark.parametrize(
    ("base", "field"),
    [
        (None, "spec.base"),
        (ModelRef("version", "starter"), "spec.base.version"),
        (ModelRef("version", "starter:champion"), "spec.base.version"),
        (ModelRef("alias", "starter@1"), "spec.base.alias"),
        (ModelRef("path", " "), "spec.base"),
        (ModelRef("path", "/nowhere"), "spec.base.path"),
        (ModelRef("version", "starter@9"), "spec.base.version"),
    ],
)
async def test_a_base_that_leads_nowhere_is_named(
    references: References, base: ModelRef | None, field: str, make_spec: Any
) -> None:
    found = await references.find(make_spec(base=base))
    assert (found.base, fields(found)) == (None, {field})


async def test_sets_that_lead_nowhere_are_named(references: References, make_spec: Any) -> None:
    found = await references.find(
        make_spec(problems=ProblemSetRef("", limit=-1), validation_problems=ProblemSetRef("nothing"))
    )
    assert fields(found) == {"spec.problems.name", "spec.problems.limit", "spec.validation_problems.name"}


async def test_a_set_with_splits_is_validated_on_its_own(references: References, make_spec: Any) -> None:
    found = await references.find(make_spec())
    assert found.validation_problems is not None
    assert found.validation_problems.ref == ProblemSetRef("composed/validation", digest="sha256:v")
    own = await references.find(make_spec(problems=ProblemSetRef("mine.jsonl")))
    assert (own.validation_problems, fields(own)) == (None, set())


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


def test_both_forms_of_a_version_are_read() -> None:
    assert version_parts("starter@12") == version_parts("models/starter/versions/12") == ("starter", 12)
    assert alias_parts("starter:champion") == ("starter", "champion")
    assert version_parts("starter@") is alias_parts("starter") is None
