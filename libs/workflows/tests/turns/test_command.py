"""`ratchet improve`: which turn goes on, which begins, and what is refused before anything does."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ratchet_cli.commands import improve as command
from ratchet_cli.commands.improve import Improvement
from ratchet_cli.terminal.errors import CommandError
from ratchet_client import ApiError
from ratchet_workflows.notation.yaml_files import YamlFile
from ratchet_workflows.turns import feedback, report
from ratchet_workflows.turns.plan import read
from ratchet_workflows.turns.records import State, Turns

from .platform import EVALUATION, GATE, RUN, Killed, Platform

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
        return Improvement(platform, read(source), source, turns, quiet=True)

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
    with pytest.raises(CommandError) as raised:
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
    assert (raised.value.code, platform.made, turns.latest()) == (2, {}, None)


@pytest.mark.parametrize(
    ("champion", "said"),
    [(0, "model has no champion yet: ratchet models promote starter@1"), (-1, "ratchet models add starter")],
)
def test_a_model_without_a_champion_is_said(work: Any, champion: int, said: str) -> None:
    platform = Platform()
    platform.champion = champion
    with pytest.raises(CommandError, match=f"improve.yaml:1: .*{said}"):
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
    with pytest.raises(CommandError):
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
    with pytest.raises(CommandError):
        work(platform).by_hand(new=False)
    (folder / "improve.yaml").write_text(PLAN.replace("steps: 4", "steps: 5"))
    with pytest.raises(CommandError, match=r"has changed since turn 1 began, .* begin anew by --new"):
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


def test_what_a_command_line_may_not_say(ratchet: Any, folder: Path) -> None:
    file = str(folder / "improve.yaml")
    assert "give one of them" in ratchet("improve", "-f", file, "--every", "7d", "--when-feedback", "5").stderr
    assert "as 30m, 6h, 1d" in ratchet("improve", "-f", file, "--every", "weekly").stderr
    assert ratchet("improve", "-f", str(folder / "nowhere.yaml")).returncode == 2
    assert ratchet("improve", "-f", file).returncode == 4, "no platform answers"
    assert command.improve.__doc__
