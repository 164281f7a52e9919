"""What is said of a run: what it does before its first step, each few steps, and how long it will take."""

from datetime import UTC, datetime, timedelta

from rich.console import Console

from ratchet.common.v1 import model_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.views.runs import PHASES, RunView, reward, seconds_per_step, stage

START = datetime(2026, 11, 1, tzinfo=UTC)


def step(number: int, seconds: float, attempt: int = 1, **metrics: float) -> pb.Step:
    made = pb.Step(number=number, metrics=metrics, attempt=attempt)
    made.create_time.FromDatetime(START + timedelta(seconds=seconds))
    return made


def message(
    state: pb.Run.State.ValueType,
    *steps: pb.Step,
    attempt: int = 1,
    phase: pb.Run.Phase.ValueType = pb.Run.PHASE_UNSPECIFIED,
) -> pb.WatchRunResponse:
    done = steps[-1].number if steps else 0
    run = pb.Run(id="run_1", state=state, phase=phase, step=done, attempt=attempt, spec=pb.RunSpec(steps=60))
    return pb.WatchRunResponse(run=run, steps=steps)


def panel(view: RunView) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(view.panel())
    return captured.get()


def test_before_the_first_step_each_situation_is_a_line() -> None:
    view = RunView("run_1")
    said = []
    for state, phase in (
        (pb.Run.STATE_QUEUED, pb.Run.PHASE_UNSPECIFIED),
        (pb.Run.STATE_QUEUED, pb.Run.PHASE_UNSPECIFIED),
        (pb.Run.STATE_STARTING, pb.Run.PHASE_SUBMITTING),
        (pb.Run.STATE_RUNNING, pb.Run.PHASE_LOADING_MODEL),
        (pb.Run.STATE_RUNNING, pb.Run.PHASE_GENERATING),
    ):
        view.update(message(state, phase=phase))
        said += view.news()
    assert said == [
        "run_1: waiting for a worker of the trainer",
        "run_1: starting the job and Ray",
        "run_1: loading the model on the training ranks",
        "run_1: sampling and grading completions",
    ]
    assert "sampling and grading completions" in panel(view)


def test_what_a_guard_says_is_said_once() -> None:
    view = RunView("run_1")
    told = message(pb.Run.STATE_QUEUED)
    told.run.notices.append(pb.Notice(step=3, message="completions repeat themselves", guard="repetition"))
    view.update(told)
    assert "run_1: at step 3: completions repeat themselves" in view.news()
    assert view.news() == []
    assert "completions repeat themselves" in panel(view)


def test_every_phase_has_its_words() -> None:
    assert set(PHASES) == {phase for phase in pb.Run.Phase.values() if phase}


def test_steps_are_said_with_what_they_measured_and_the_time_left() -> None:
    view = RunView("run_1")
    view.update(message(pb.Run.STATE_RUNNING, step(1, 0, reward_mean=0.25, time_step_s=4.0)))
    assert view.news()[-1] == "run_1: step 1 of 60, reward 0.250", "the first step loads and compiles"
    view.update(message(pb.Run.STATE_RUNNING, step(2, 4, reward_mean=0.3)))
    assert view.news() == []
    view.update(message(pb.Run.STATE_RUNNING, step(3, 8, reward_mean=0.5, validation_score=0.4)))
    said = view.news()
    assert said == ["run_1: step 3 of 60, reward 0.500, validation 0.400, 4.0 s per step, about 3 min 48 s left"]
    assert "3 of 60, 4.0 s per step" in panel(view)
    interval = {"validation_score_low": 0.3, "validation_score_high": 0.5}
    view.update(message(pb.Run.STATE_RUNNING, step(60, 236, reward_mean=0.5, validation_score=0.4, **interval)))
    assert view.news()[:1] == ["run_1: step 60 of 60, reward 0.500, validation 0.400 (0.300 to 0.500)"]
    assert "3: 0.400  60: 0.400 (0.300 to 0.500)" in panel(view)


def test_the_next_attempt_is_said() -> None:
    view = RunView("run_1")
    view.update(message(pb.Run.STATE_RUNNING, step(1, 0)))
    view.news()
    view.update(message(pb.Run.STATE_STARTING, attempt=2))
    assert view.news() == ["run_1: starting (attempt 2)"]


def test_the_pace_is_that_of_the_present_attempt() -> None:
    assert seconds_per_step([]) is None
    before = [step(1, 0), step(2, 5), step(3, 600, attempt=2), step(4, 602, attempt=2)]
    assert seconds_per_step(before) is None
    assert seconds_per_step([*before, step(5, 604, attempt=2)]) == 2.0


def test_a_panel_leaves_the_error_to_the_command() -> None:
    view = RunView("run_1")
    failed = message(pb.Run.STATE_FAILED)
    failed.run.failure.message = "the job died"
    view.update(failed)
    assert "the job died" not in panel(view)


def test_a_phase_that_began_before_the_watch_counts_from_its_beginning() -> None:
    view = RunView("run_1")
    loading = message(pb.Run.STATE_RUNNING, phase=pb.Run.PHASE_LOADING_POLICY)
    loading.run.phase_time.FromDatetime(datetime.now(UTC) - timedelta(seconds=90))
    view.update(loading)
    assert "loading the policy in the rollout service, 1 min 30 s" in panel(view)


def test_a_reward_in_a_line() -> None:
    assert reward(pb.RewardSpec(components=[pb.RewardComponent(name="style")])) == "style"
    components = [
        pb.RewardComponent(name="tests_passed", schedule=[pb.WeightPoint(step=1, weight=1), pb.WeightPoint(step=9)]),
        pb.RewardComponent(name="style", weight=0.2),
        pb.RewardComponent(name="safety", weight=0, veto_below=0.5),
    ]
    spec = pb.RewardSpec(components=components, combination=pb.RewardSpec.COMBINATION_WEIGHTED_SUM)
    assert reward(spec) == (
        "weighted_sum of tests_passed 1 at step 1 to 0 at step 9, style 0.2, safety 0 (vetoed below 0.5)"
    )
    judge = model_pb2.ModelRef(version=model_pb2.VersionRef(model="judge", number=2))
    preference = pb.RewardComponent(name="preference", weight=0.3, model=judge)
    assert reward(pb.RewardSpec(components=[preference])) == "preference 0.3 by judge@2"


def test_a_stage_in_a_line() -> None:
    assert stage(pb.CurriculumStage()) == "all problems; to the end of the run"
    assert stage(pb.CurriculumStage(max_difficulty=2, steps=10)) == "difficulty up to 2; to 10 steps"
    some = pb.CurriculumStage(min_difficulty=2, max_difficulty=3, tags=["lists", "text"], steps=9, pass_rate=0.6)
    assert stage(some) == "difficulty from 2 up to 3, tagged lists or text; to 9 steps or a pass rate of 0.6"
