"""Which turn goes on, which begins, and what is refused before anything does."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ratchet_client
from ratchet_client import ApiError
from ratchet_workflows.errors import UsageError, WorkflowError
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.progress import SILENT, Silent
from ratchet_workflows.turns import feedback, report
from ratchet_workflows.turns.improvement import Improvement, improve
from ratchet_workflows.turns.plan import read
from ratchet_workflows.turns.records import State, Turns

from ..kept_traffic import Kept, chat_pair
from .platform import EVALUATION, GATE, RUN, Killed, Platform

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
def folder(tmp_path: Path) -> Path:
    (tmp_path / "improve.yaml").write_text(PLAN)
    return tmp_path


@pytest.fixture
def turns(folder: Path) -> Turns:
    return Turns(folder / "improve.turns")


@pytest.fixture
def work(folder: Path, turns: Turns) -> Callable[[Platform], Improvement]:
    turns.folder.mkdir()

    def make(platform: Any) -> Improvement:
        source = YamlFile(folder / "improve.yaml")
        return Improvement(platform, read(source), source, turns, SILENT, lambda sets: None)

    return make


@pytest.fixture
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """They take a second each."""
    monkeypatch.setattr(report, "write", lambda *report: None)
    monkeypatch.setattr(report, "write_evaluations", lambda *report: None)


def refusal(*faults: tuple[str, str]) -> ApiError:
    violations = [{"field": field, "description": description} for field, description in faults]
    return ApiError(400, "INVALID_ARGUMENT", "it cannot be made", violations)


def test_every_fault_is_named_by_its_line_before_anything_begins(work: Any, turns: Turns) -> None:
    platform = Platform()
    platform.refusals = {
        "run": refusal(("spec.steps", "must be 5 or more"), ("spec.hyperparameters.group_size", "must be 2 or more")),
        "evaluation": refusal(("spec.problems.name", "is not available")),
        "gate": refusal(("min_difference", "must be from -0.1 to 1")),
        "release": refusal(("spec.stages[0].min_samples", "must be 0 or more"), ("spec.watch", "must be 0 s or more")),
    }
    with pytest.raises(UsageError) as raised:
        work(platform).by_hand(new=False)
    file = turns.folder.with_name("improve.yaml")
    assert str(raised.value).splitlines() == [
        f"{file}:3: train.steps must be 5 or more.",
        f"{file}:2: train.hyperparameters.group_size must be 2 or more.",
        f"{file}:5: evaluate.problems.name is not available.",
        f"{file}:6: gate.min_difference must be from -0.1 to 1.",
        f"{file}:7: release.stages[0].min_samples must be 0 or more.",
        f"{file}:7: release.watch must be 0 s or more.",
    ]
    assert (platform.made, turns.latest()) == ({}, None)


@pytest.mark.parametrize(
    ("champion", "said"),
    [(0, "model has no champion yet: ratchet models promote starter@1"), (-1, "ratchet models add starter")],
)
def test_a_model_without_a_champion_is_said(work: Any, champion: int, said: str) -> None:
    platform = Platform()
    platform.champion = champion
    with pytest.raises(UsageError, match=f"improve.yaml:1: .*{said}"):
        work(platform).by_hand(new=False)


def test_a_run_that_does_not_fit_is_no_fault_of_a_field(work: Any, turns: Turns) -> None:
    platform = Platform()
    platform.refusals["run"] = ApiError(412, "FAILED_PRECONDITION", "it needs 90 GiB")
    with pytest.raises(ApiError, match="90 GiB"):
        work(platform).by_hand(new=False)
    assert (platform.made, turns.latest()) == ({}, None)


@pytest.mark.usefixtures("no_pages")
def test_by_hand_a_turn_that_has_not_ended_goes_on_and_else_another_begins(work: Any, turns: Turns) -> None:
    platform = Platform(run=[RUN.STATE_FAILED, RUN.STATE_SUCCEEDED], gate=[GATE.STATE_REFUSED])
    with pytest.raises(WorkflowError):
        work(platform).by_hand(new=False)
    assert work(platform).by_hand(new=False).state is State.REFUSED
    assert (platform.count(RUN), turns.latest().number) == (1, 1)
    assert work(platform).by_hand(new=False).number == 2
    platform.kill_before = len(platform.calls) + 8
    with pytest.raises(Killed):
        work(platform).by_hand(new=False)
    assert work(platform).by_hand(new=True).number == 4


@pytest.mark.usefixtures("no_pages")
def test_a_file_that_has_changed_does_not_go_on_with_another_turn(work: Any, turns: Turns, folder: Path) -> None:
    platform = Platform(run=[RUN.STATE_FAILED, RUN.STATE_SUCCEEDED])
    with pytest.raises(WorkflowError):
        work(platform).by_hand(new=False)
    (folder / "improve.yaml").write_text(PLAN.replace("steps: 4", "steps: 5"))
    with pytest.raises(UsageError, match=r"has changed since turn 1 began, .* begin a new turn"):
        work(platform).by_hand(new=False)
    assert work(platform).by_hand(new=True).state is State.RELEASED


def test_a_turn_that_has_ended_has_a_report(work: Any, turns: Turns) -> None:
    pytest.importorskip("matplotlib")
    work(Platform(gate=[GATE.STATE_REFUSED])).by_hand(new=False)
    page = (turns.folder / "turn-1.html").read_text()
    assert "starter@2 is not released. Refused:" in page
    assert 'href="turn-1-evaluations.html"' in page
    assert (turns.folder / "turn-1-evaluations.html").is_file()


@pytest.mark.usefixtures("no_pages")
def test_a_period_has_one_turn(work: Any, turns: Turns) -> None:
    platform = Platform(gate=[GATE.STATE_REFUSED])
    work(platform).of_period("7d-10")
    work(platform).of_period("7d-10")
    assert turns.latest().number == 1
    work(platform).of_period("7d-11")
    assert (turns.latest().number, turns.latest().due) == (2, "7d-11")


@pytest.mark.usefixtures("no_pages")
def test_a_turn_that_was_cut_off_goes_on_in_the_next_period_and_one_that_failed_does_not(
    work: Any, turns: Turns
) -> None:
    platform = Platform(evaluation=[EVALUATION.STATE_SUCCEEDED] * 4 + [EVALUATION.STATE_FAILED])
    platform.kill_before = 10
    with pytest.raises(Killed):
        work(platform).of_period("7d-10")
    work(platform).of_period("7d-11")
    assert (turns.latest().number, turns.latest().due, turns.latest().state) == (1, "7d-10", State.RELEASED)
    turns.save(replace(turns.latest(), state=State.FAILED))
    platform.champion = 1
    work(platform).of_period("7d-11")
    assert turns.latest().number == 2


@pytest.mark.usefixtures("no_pages")
def test_a_turn_begins_when_enough_answers_have_a_score(
    work: Any, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = Platform(gate=[GATE.STATE_REFUSED])
    platform.scored = [3, 3, 9, 10, 4, 12, 0]
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(feedback.wait_for_feedback, "__defaults__", (sleep,))
    with pytest.raises(KeyboardInterrupt):
        work(platform).by_feedback(10, new=False)
    assert (turns.latest().number, turns.latest().due) == (2, "feedback-12")
    log = (turns.folder / "log.txt").read_text()
    assert log.count("3 of 10 answers of starter have a score.") == 1
    assert "4 of 10 answers of starter have a score since" in log


FIELDS = {
    "model": "starter",
    "train": {"steps": 4, "reward": "tests"},
    "evaluate": {"problems": "composed/test"},
    "release": {"stages": [{"percent": 100}]},
}


@pytest.mark.usefixtures("no_pages")
def test_a_program_improves_a_model_by_a_mapping(tmp_path: Path) -> None:
    platform: Any = Platform()
    sets: list[str] = []
    record = improve(platform, FIELDS, tmp_path / "turns", prepare=sets.extend)
    assert (record.state, record.candidate, platform.champion) == (State.RELEASED, 2, 2)
    assert sets == ["composed/test", ""]
    with pytest.raises(UsageError, match=r"plan: train\.step is not a field; did you mean steps\?"):
        improve(platform, FIELDS | {"train": {"step": 4}}, tmp_path / "turns")
    with pytest.raises(UsageError, match="plan: evaluate is missing: name the problems"):
        improve(platform, {"model": "starter", "train": {}}, tmp_path / "turns")


class Told(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def stage(self, title: str) -> None:
        self.lines.append(f"== {title}")

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.mark.usefixtures("no_pages")
def test_stages_and_what_happens_are_told(tmp_path: Path) -> None:
    told, platform = Told(), Platform()
    improve(platform, FIELDS, tmp_path / "turns", progress=told)  # type: ignore[arg-type]
    stages = [line for line in told.lines if line.startswith("==")]
    assert stages == [
        "== measure starter@1",
        "== train 4 steps",
        "== measure starter@2",
        "== gate",
        "== release starter@2",
    ]
    assert told.lines[-1].startswith("starter@2 is released")


@pytest.mark.usefixtures("no_pages")
def test_the_example_of_the_documentation_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[4] / "docs" / "api.md").read_text()
    (example,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "improve(" in block)
    monkeypatch.setattr(ratchet_client, "Client", lambda: nullcontext(Platform()))
    monkeypatch.chdir(tmp_path)
    exec(example, {})
    assert capsys.readouterr().out.startswith("released: starter@2 is released")


def test_a_turn_learns_from_the_traffic_that_is_kept_when_it_begins(
    folder: Path, work: Callable[[Platform], Improvement], turns: Turns, no_pages: None
) -> None:
    (folder / "improve.yaml").write_text(TRAFFIC)
    kept = Kept(*(chat_pair(f"user-{number}") for number in range(40)))
    platform = Platform()
    platform.traffic, platform.datasets = kept.traffic, kept.datasets
    record = work(platform).by_hand(new=False)
    assert (record.state, record.pairs) == (State.RELEASED, "traffic-starter@1/train")
    specs = [one.spec for one in platform.made.values() if isinstance(one, RUN)]
    assert {spec.pairs.name for spec in specs} == {"traffic-starter@1/train"}
    ((model, _, since),) = kept.asked
    assert model == "starter"
    assert since is not None
    platform.traffic = Kept().traffic
    with pytest.raises(UsageError, match=r"train.pairs has nothing to learn from: no pairs of starter are kept"):
        work(platform).by_hand(new=True)


@pytest.mark.parametrize(
    ("train", "fault"),
    [
        ("{algorithm: dpo, pairs: mine/train, days: 30}", "train.days goes with pairs: traffic"),
        ("{algorithm: dpo, pairs: traffic, days: 0}", "train.days must be 1 or more"),
    ],
)
def test_days_are_of_traffic(folder: Path, train: str, fault: str) -> None:
    (folder / "improve.yaml").write_text(f"model: starter\ntrain: {train}\nevaluate: {{problems: composed/test}}\n")
    with pytest.raises(UsageError, match=fault):
        read(YamlFile(folder / "improve.yaml"))
