"""A turn from its plan to its end: what is refused before anything begins, and what it learns from."""

from pathlib import Path
from typing import Any

import pytest

from ratchet_client import ApiError
from ratchet_workflows.errors import UsageError
from ratchet_workflows.notation.yaml_files import YamlText
from ratchet_workflows.turns import checks, report
from ratchet_workflows.turns.improvement import improve
from ratchet_workflows.turns.plan import read
from ratchet_workflows.turns.records import Record, State

from ..kept_traffic import Kept, chat_pair
from ..memory import MemoryKept
from .platform import GATE, RUN, Platform

TRAFFIC = """\
model: starter
train: {algorithm: dpo, pairs: traffic, days: 30, steps: 4}
evaluate: {problems: composed/test}
"""
PLAN = """\
model: starter
train:
  steps: 4
  reward: tests
evaluate: {problems: composed/test}
gate: {min_difference: 0.01}
release: {stages: [{percent: 100}]}
"""


@pytest.fixture
def kept() -> MemoryKept:
    return MemoryKept()


def work(platform: Any, kept: MemoryKept, text: str = PLAN) -> Record:
    return improve(platform, YamlText("improve.yaml", text), kept, kept.progress, 3)


def refusal(*faults: tuple[str, str]) -> ApiError:
    violations = [{"field": field, "description": description} for field, description in faults]
    return ApiError(400, "INVALID_ARGUMENT", "it cannot be made", violations)


def test_every_fault_is_named_by_its_line_before_anything_begins(kept: MemoryKept) -> None:
    platform = Platform()
    platform.refusals = {
        "run": refusal(("spec.steps", "must be 5 or more"), ("spec.hyperparameters.group_size", "must be 2 or more")),
        "evaluation": refusal(("spec.problems.name", "is not available")),
        "gate": refusal(("min_difference", "must be from -0.1 to 1")),
        "release": refusal(("spec.stages[0].min_samples", "must be 0 or more"), ("spec.watch", "must be 0 s or more")),
    }
    with pytest.raises(UsageError) as raised:
        work(platform, kept)
    assert str(raised.value).splitlines() == [
        "improve.yaml:3: train.steps must be 5 or more.",
        "improve.yaml:2: train.hyperparameters.group_size must be 2 or more.",
        "improve.yaml:5: evaluate.problems.name is not available.",
        "improve.yaml:6: gate.min_difference must be from -0.1 to 1.",
        "improve.yaml:7: release.stages[0].min_samples must be 0 or more.",
        "improve.yaml:7: release.watch must be 0 s or more.",
    ]
    assert (platform.made, kept.read()) == ({}, {})


@pytest.mark.parametrize(
    ("champion", "said"),
    [(0, "model has no champion yet: ratchet models promote starter@1"), (-1, "ratchet models add starter")],
)
def test_a_model_without_a_champion_is_said(kept: MemoryKept, champion: int, said: str) -> None:
    platform = Platform()
    platform.champion = champion
    with pytest.raises(UsageError, match=f"improve.yaml:1: .*{said}"):
        work(platform, kept)


def test_a_run_that_does_not_fit_is_no_fault_of_a_field(kept: MemoryKept) -> None:
    platform = Platform()
    platform.refusals["run"] = ApiError(412, "FAILED_PRECONDITION", "it needs 90 GiB")
    with pytest.raises(ApiError, match="90 GiB"):
        work(platform, kept)
    assert (platform.made, kept.read()) == ({}, {})


def test_it_is_trained_with_its_number_as_the_seed(kept: MemoryKept) -> None:
    platform = Platform()
    assert work(platform, kept).number == 3
    (run,) = (one for one in platform.made.values() if isinstance(one, RUN))
    assert run.spec.seed == 3


def test_a_turn_that_has_ended_has_a_report(kept: MemoryKept, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    platform: Any = Platform(gate=[GATE.STATE_REFUSED])
    record = work(platform, kept)
    report.write_evaluations(platform, record, tmp_path / "evaluations.html")
    report.write(report.gather(platform, record), tmp_path / "turn.html", "evaluations.html")
    page = (tmp_path / "turn.html").read_text()
    assert "starter@2 is not released. Refused:" in page
    assert 'href="evaluations.html"' in page


def test_a_turn_learns_from_the_traffic_that_is_kept_when_it_begins(kept: MemoryKept) -> None:
    found = Kept(*(chat_pair(f"user-{number}") for number in range(40)))
    platform: Any = Platform()
    platform.traffic, platform.datasets = found.traffic, found.datasets
    checks.check(platform, read(YamlText("improve.yaml", TRAFFIC)), YamlText("improve.yaml", TRAFFIC))
    assert found.asked == [], "a check makes no data set"
    record = work(platform, kept, TRAFFIC)
    assert (record.state, record.pairs) == (State.RELEASED, "traffic-starter@1/train")
    specs = [one.spec for one in platform.made.values() if isinstance(one, RUN)]
    assert {spec.pairs.name for spec in specs} == {"traffic-starter@1/train"}
    ((model, _, since),) = found.asked
    assert model == "starter"
    assert since is not None
    platform.traffic = Kept().traffic
    with pytest.raises(UsageError, match=r"train.pairs has nothing to learn from: no pairs of starter are kept"):
        work(platform, MemoryKept(), TRAFFIC)


@pytest.mark.parametrize(
    ("train", "fault"),
    [
        ("{algorithm: dpo, pairs: mine/train, days: 30}", "train.days goes with pairs: traffic"),
        ("{algorithm: dpo, pairs: traffic, days: 0}", "train.days must be 1 or more"),
    ],
)
def test_days_are_of_traffic(train: str, fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        read(YamlText("it", f"model: starter\ntrain: {train}\nevaluate: {{problems: composed/test}}\n"))
