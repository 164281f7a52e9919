"""A study over a platform in memory: nothing is made twice, and what was cut off goes on."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ratchet_client import ApiError
from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.notation.yaml_files import YamlText
from ratchet_workflows.studies import report, work
from ratchet_workflows.studies.results import StudyResults
from ratchet_workflows.studies.study import Study

from ..memory import MemoryKept
from .platform import EVALUATION, RUN, Killed, Platform

STUDY = """\
train: {base: starter, problems: composed/train, steps: 4, max_tokens: 300}
seeds: 2
vary: {hyperparameters.learning_rate: [1e-5, 5e-5]}
evaluate: {problems: composed/test}
"""
SEARCH = """\
train: {base: starter, problems: composed/train, steps: 9, validate_every: 1}
search:
  trials: 6
  ranges: {hyperparameters.learning_rate: {loguniform: [1e-6, 1e-3]}, hyperparameters.clip_high: {uniform: [0.1, 0.4]}}
  asha: {min_steps: 1, factor: 3}
evaluate: {problems: composed/test}
"""
Make = Callable[..., Study]


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "POLL_S", 0.0)


@pytest.fixture
def kept() -> MemoryKept:
    return MemoryKept()


@pytest.fixture
def make(kept: MemoryKept) -> Make:
    def make(platform: Any, text: str = STUDY) -> Study:
        return Study(platform, YamlText("s.yaml", text), kept, kept.progress, "s.yaml")

    return make


def test_each_variant_is_trained_with_each_seed_and_measured(make: Make, kept: MemoryKept, tmp_path: Path) -> None:
    platform = Platform()
    found = make(platform).finish()
    assert [(one.variant, one.seed, one.ended_by) for one in found.results] == [
        ("learning_rate 1e-5", 0, "tokens"),
        ("learning_rate 1e-5", 1, "tokens"),
        ("learning_rate 5e-5", 0, "tokens"),
        ("learning_rate 5e-5", 1, "tokens"),
    ]
    second = found.summaries[1]
    assert second.difference
    assert (second.pass_at_1, second.difference.value) == (pytest.approx(0.4025), pytest.approx(0.162))
    assert (second.tokens, second.seconds, second.memory_bytes) == (300, 60, 2**30)
    # seed by seed, so that a study that is cut off compares what it has
    assert [run.spec.seed for run in platform.all(RUN)] == [0, 0, 1, 1]
    assert {run.spec.base.version.number for run in platform.all(RUN)} == {1}
    assert found.title == "Study s"
    saved = kept.read()
    again = StudyResults.of_json(saved["results"], platform.runs.steps)
    assert (again.results, again.summaries, again.reaches) == (found.results, found.summaries, found.reaches)
    assert [bool(one["run"] and one["evaluation"]) for one in saved["cells"]] == [True] * 4
    report.write(again, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 4  # held-out, differences, validation, reward
    assert "0.162" in page
    assert "Tokens to a validation score of" in page


@pytest.mark.parametrize("call", range(1, 24))
def test_killed_at_any_call_it_goes_on_and_makes_nothing_twice(make: Make, call: int) -> None:
    platform = Platform()
    platform.kill_at = call
    with pytest.raises(Killed):
        make(platform).finish()
    platform.champion = 7  # of another's making: the study stays with what it began with
    found = make(platform).finish()
    assert all(one.pass_at_1 for one in found.results)
    assert (len(platform.all(RUN)), len(platform.all(EVALUATION))) == (4, 4)
    assert {run.spec.base.version.number for run in platform.all(RUN)} == {1}


def test_a_run_that_fails_loses_no_other_and_the_same_command_resumes_it(make: Make) -> None:
    platform = Platform(1)
    found = make(platform).finish()
    assert [one.fault for one in found.results if one.fault] == ["FAILED: the disk is full"]
    assert (found.summaries[0].runs, found.summaries[1].runs) == (1, 2)
    found = make(platform).finish()
    assert not any(one.fault for one in found.results)
    assert [run.resumes for run in platform.all(RUN)] == [0, 0, 1, 0]


def test_a_platform_that_is_away_for_a_while_is_waited_for(make: Make) -> None:
    platform = Platform()
    platform.away = 5
    assert all(one.pass_at_1 for one in make(platform).finish().results)


def test_what_the_platform_refuses_is_said_by_line_before_anything_begins(make: Make) -> None:
    platform = Platform()
    rate = {"field": "spec.hyperparameters.learning_rate", "description": "must be at most 1e-5."}
    steps = {"field": "spec.steps", "description": "must be 5 or more."}
    platform.refusals = [
        ApiError(400, "INVALID_ARGUMENT", "no", [steps, rate]),
        ApiError(400, "INVALID_ARGUMENT", "no", [steps]),
    ]
    with pytest.raises(UsageError) as raised:
        make(platform).finish()
    assert str(raised.value).splitlines() == [
        "s.yaml:1: train.steps must be 5 or more.",
        "s.yaml:3: vary.hyperparameters.learning_rate must be at most 1e-5 (in learning_rate 5e-5).",
    ]
    assert not platform.made


def test_runs_that_ended_by_their_steps_are_not_on_equal_tokens(make: Make) -> None:
    found = make(Platform(), STUDY.replace("steps: 4", "steps: 2")).finish()
    assert "learning_rate 1e-5, seed 0; learning_rate 1e-5, seed 1" in found.notes[0]
    assert "not on equal tokens" in found.notes[0]


def test_a_search_ends_trials_early_and_measures_the_best_against_the_default(
    make: Make, kept: MemoryKept, tmp_path: Path
) -> None:
    platform = Platform()
    found = make(platform, SEARCH.replace("asha:", "seed: 3\n  asha:")).finish()
    states = [one["state"] for one in found.trials]
    assert len(states) == 6
    assert "PRUNED" in states
    ended = [run for run in platform.all(RUN) if run.state == RUN.STATE_CANCELLED]
    assert len(ended) == states.count("PRUNED")
    assert all(run.step < 9 for run in ended)
    best = max((one for one in found.trials if one["state"] == "COMPLETE"), key=lambda one: one["validation"])
    assert found.summaries[0].name == "default"
    assert f"learning_rate {best['settings']['hyperparameters.learning_rate']:.3g}" in found.summaries[1].name
    assert "over these problems, of one training seed. One training seed cannot show whether it beats" in found.verdict
    again = StudyResults.of_json(kept.read()["results"], platform.runs.steps)
    assert again.trials == found.trials
    report.write(again, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count("<svg") >= 4


def test_whether_a_setting_beats_the_default_is_of_seeds(make: Make) -> None:
    found = make(Platform(), f"{SEARCH}seeds: 3\n").finish()
    assert "paired by seed over 3 seeds. It beats the default." in found.verdict


@pytest.mark.parametrize("call", [2, 9, 14, 20, 30, 36])
def test_a_search_that_was_killed_goes_on(make: Make, call: int) -> None:
    platform = Platform()
    platform.kill_at = call
    with pytest.raises(Killed):
        make(platform, SEARCH).finish()
    begun = {run.id: run.spec.hyperparameters.learning_rate for run in platform.all(RUN)}
    found = make(platform, SEARCH).finish()
    assert len(found.trials) == 6
    assert all(one["state"] in ("COMPLETE", "PRUNED") for one in found.trials)
    assert begun.keys() <= {one["run"] for one in found.trials}
    assert len({one["run"] for one in found.trials}) == 6
    assert len(platform.all(RUN)) == 6  # the best and the default were trained already


def test_a_budget_ends_a_search(make: Make) -> None:
    platform = Platform()
    found = make(platform, SEARCH.replace("asha: {min_steps: 1, factor: 3}", "budget: {tokens: 1800}")).finish()
    assert [one["tokens"] for one in found.trials] == [900, 900]
    assert found.notes[-1] == "The search ended since its budget was spent."


def test_the_default_is_the_first_trial_where_it_lies_in_the_ranges(make: Make) -> None:
    only_rate = SEARCH.replace(", hyperparameters.clip_high: {uniform: [0.1, 0.4]}", "").replace(
        "trials: 6", "trials: 1"
    )
    found = make(Platform(), only_rate).finish()
    assert found.trials[0]["default"]
    assert found.trials[0]["settings"] == {"hyperparameters.learning_rate": 1e-5}
    assert "No setting that was tried is better on validation than the default." in found.verdict


def test_each_run_has_a_line_at_each_turn_and_none_twice(make: Make, kept: MemoryKept) -> None:
    alone = [line for line in STUDY.splitlines() if not line.startswith(("seeds", "vary"))]
    make(Platform(), "\n".join(alone)).finish()
    assert [line.removeprefix("1 of 1: as written, seed 0: ") for line in kept.lines] == [
        "waiting for a worker of the trainer (run_0)",
        "step 1 of 4, 100 of 300 tokens, reward 0.100, validation 0.035",
        "step 2 of 4, 200 of 300 tokens, reward 0.200, validation 0.070",
        "measuring, step 3 of 4, 300 of 300 tokens, validation 0.105",
        "done, step 3 of 4, 300 of 300 tokens, validation 0.105, pass@1 0.240 [0.140, 0.340]",
    ]


def test_without_optuna_a_search_says_how_to_get_it(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "ratchet_workflows.studies.search", raising=False)
    monkeypatch.delattr("ratchet_workflows.studies.search", raising=False)
    with pytest.raises(WorkflowError, match=r"A search needs Optuna: pip install optuna"):
        make(Platform(), SEARCH).finish()
