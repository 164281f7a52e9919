"""What makes two evaluations one look, and what makes them comparable."""

from dataclasses import replace
from typing import Any

import pytest

from eval_service.domain.evaluation import Evaluation, ResolvedModel
from eval_service.domain.measurement import Measurement, measurement_of
from eval_service.domain.spec import EvaluationSpec, ProblemSetRef, SuiteEntry
from ratchet_environments import EnvironmentSpec
from ratchet_kit.names import AliasRef, Location, VersionRef

from ..conftest import NOW

SPEC = EvaluationSpec(VersionRef("starter", 2), (SuiteEntry(ProblemSetRef("basics", digest="sha256:d")),))


def of(id: str = "eval_1", **changes: Any) -> Measurement:
    spec = replace(SPEC, **changes)
    model = ResolvedModel("/a", "sha256:p")
    made = measurement_of(Evaluation(id, spec, model, NOW, policy_id="sha256:p", start_time=NOW))
    assert made is not None
    return made


def test_the_same_again_is_no_second_look() -> None:
    assert of().draw == of("eval_2", model=Location("/a")).draw


@pytest.mark.parametrize("change", [{"seed": 1}, {"samples_per_problem": 2}])
def test_other_samples_are_a_look_of_their_own(change: dict[str, Any]) -> None:
    assert of(**change).draw != of().draw
    assert of(**change).setup == of().setup


def test_what_cannot_be_compared_has_another_setup() -> None:
    assert of(max_tokens=511).setup != of().setup


def test_episodes_are_run_anew_each_time() -> None:
    environment = EnvironmentSpec("edits")
    assert of(environment=environment).draw != of("eval_2", environment=environment).draw


def test_harnesses_differ_by_their_command_and_their_files() -> None:
    harness = EnvironmentSpec("harness", command=("python", "a.py"), files={"a.py": "", "b.py": ""})
    others = [replace(harness, command=("python", "b.py")), replace(harness, files={"a.py": "x", "b.py": ""})]
    assert len({of(environment=one).setup for one in (harness, *others)}) == 3
    assert of(environment=harness).setup == of(environment=replace(harness, files={"b.py": "", "a.py": ""})).setup


def test_it_is_known_under_which_name_it_was_measured() -> None:
    names = [of(model=model).model for model in (VersionRef("a", 1), AliasRef("b", "champion"), Location("/c"))]
    assert names == ["a", "b", ""]


def test_nothing_was_seen_before_it_began_nor_is_known_of_imported_samples() -> None:
    began = Evaluation("eval_1", SPEC, ResolvedModel("/a"), NOW, policy_id="sha256:p", start_time=NOW)
    assert measurement_of(replace(began, start_time=None)) is None
    assert measurement_of(replace(began, policy_id="")) is None
    assert measurement_of(replace(began, spec=replace(SPEC, model=None, imported_samples=9))) is None
