"""A spec that cannot be measured is refused with every fault named."""

from typing import Any

import pytest

from eval_service.domain.spec import EvaluationSpec, Form, Kind, ProblemSetRef, Prompting, RewardJudge, SuiteEntry
from ratchet_environments import EnvironmentSpec
from ratchet_kit.errors import InvalidArgument
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef

BASICS = SuiteEntry(ProblemSetRef("basics"))
STARTER = VersionRef("starter", 3)


def fields_of(*suite: SuiteEntry, **fields: Any) -> list[str]:
    with pytest.raises(InvalidArgument) as refused:
        EvaluationSpec(**({"model": STARTER, "suite": suite or (BASICS,)} | fields))
    assert all(violation.field in refused.value.message for violation in refused.value.violations)
    return [violation.field for violation in refused.value.violations]


@pytest.mark.parametrize("model", [STARTER, AliasRef("starter", "champion"), BareModel("starter"), Location("/m")])
def test_good_specs_pass(model: AnyModel) -> None:
    EvaluationSpec(model, (BASICS,), samples_per_problem=8, k=(1, 4, 8))
    EvaluationSpec(model, (SuiteEntry(ProblemSetRef("basics", 1)),), temperature=0)
    EvaluationSpec(model, (BASICS, SuiteEntry(ProblemSetRef("more"), 0.4)))


def test_every_fault_is_named() -> None:
    assert fields_of(
        SuiteEntry(ProblemSetRef("", limit=0)),
        samples_per_problem=2000,
        k=(0, 1, 1, 5000),
        temperature=-1,
        max_tokens=-3,
        prompting=Prompting(shots=-1),
    ) == [
        "spec.problems.name",
        "spec.problems.limit",
        "spec.samples_per_problem",
        "spec.max_tokens",
        "spec.temperature",
        "spec.k[0]",
        "spec.k[2]",
        "spec.k[3]",
        "spec.prompting.shots",
    ]


def test_a_chat_template_is_of_chats_that_are_drawn() -> None:
    EvaluationSpec(STARTER, (BASICS,), chat_template="{{ messages }}")
    assert fields_of(chat_template=" ") == fields_of(chat_template="x" * 400_000) == ["spec.chat_template"]
    assert fields_of(chat_template="x", prompting=Prompting(Form.COMPLETION)) == ["spec.chat_template"]
    assert "spec.chat_template" in fields_of(chat_template="x", imported_samples=1)


def test_a_system_is_a_message_of_a_chat_that_is_drawn() -> None:
    EvaluationSpec(STARTER, (BASICS,), system="Be brief.")
    assert fields_of(system=" ") == fields_of(system="x" * 40_000) == ["spec.system"]
    assert fields_of(system="Be brief.", prompting=Prompting(Form.COMPLETION)) == ["spec.system"]
    assert "spec.system" in fields_of(system="Be brief.", imported_samples=1)


def test_examples_are_a_few_of_a_named_set() -> None:
    EvaluationSpec(STARTER, (BASICS,), examples=ProblemSetRef("basics", 3))
    assert fields_of(examples=ProblemSetRef("", 33)) == ["spec.examples.name", "spec.examples.limit"]
    assert fields_of(examples=ProblemSetRef("basics", 0)) == ["spec.examples.limit"]
    assert "spec.examples" in fields_of(examples=ProblemSetRef("basics", 3), imported_samples=1)
    both = fields_of(examples=ProblemSetRef("basics", 3), prompting=Prompting(Form.COMPLETION, 2))
    assert both == ["spec.prompting.shots"]


def test_several_greedy_samples_are_no_more_than_one() -> None:
    assert fields_of(samples_per_problem=4, k=(4,), temperature=0) == ["spec.k[0]"]


def test_sets_of_a_suite_have_names_of_their_own_and_weights() -> None:
    assert fields_of(BASICS, SuiteEntry(ProblemSetRef(""), -1), SuiteEntry(ProblemSetRef("basics", 3), 0)) == [
        "spec.suite[1].problems.name",
        "spec.suite[1].weight",
        "spec.suite[2].problems.name",
        "spec.suite[2].weight",
    ]


def test_samples_are_imported_or_a_model_makes_them() -> None:
    EvaluationSpec(None, (BASICS,), imported_samples=5, samples_per_problem=5, k=(5,), temperature=0)
    assert fields_of(imported_samples=5) == ["spec.model"]
    assert fields_of(model=None, imported_samples=-1) == ["spec.imported_samples"]


def test_digests_and_versions_are_not_the_callers_to_say() -> None:
    spec = EvaluationSpec(STARTER, (BASICS, SuiteEntry(ProblemSetRef("more"), 2)))
    loaded = spec.with_loaded([("sha256:a", "v1"), ("sha256:b", "")])
    assert (loaded.names, loaded.digests) == (("basics", "more"), ("sha256:a", "sha256:b"))
    assert loaded.suite[0].version == "v1"
    assert loaded.as_requested() == spec


def test_of_many_k_few_are_looked_at() -> None:
    assert len(fields_of(k=(1,) * 100_000)) <= 1024


def test_an_environment_is_for_chats_that_a_model_answers() -> None:
    assert fields_of(judge=RewardJudge("facts@02", 1e99)) == ["spec.judge.reward", "spec.judge.passing_score"]
    edits = EnvironmentSpec("edits")
    assert fields_of(judge=RewardJudge("facts"), environment=edits) == ["spec.judge"]
    EvaluationSpec(STARTER, (BASICS,), environment=edits)
    assert fields_of(environment=EnvironmentSpec("edit", 1)) == [
        "spec.environment.name",
        "spec.environment.max_turns",
    ]
    assert fields_of(environment=EnvironmentSpec("plugin:hints")) == ["spec.environment.name"]
    for plays in (EnvironmentSpec("tools"), EnvironmentSpec("harness", command=("x",))):
        assert EvaluationSpec(STARTER, (BASICS,), environment=plays).kind is Kind.FOLDERS
        assert fields_of(environment=plays, system="Be brief.") == ["spec.system"]
    assert fields_of(environment=edits, prompting=Prompting(form=Form.COMPLETION)) == ["spec.environment"]
    assert fields_of(model=None, environment=edits, imported_samples=5) == ["spec.environment"]


def test_a_model_by_location_has_the_engine_settings_of_a_registered_one() -> None:
    assert EvaluationSpec(Location("/m"), (BASICS,), engine_model="starter").engine_model == "starter"
    assert fields_of(engine_model="starter") == ["spec.engine_model"]
    assert fields_of(model=Location("/m"), engine_model="No Such") == ["spec.engine_model"]
