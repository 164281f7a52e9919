"""What is said of a run: what it does before its first step, each few steps, and how long it will take."""

from datetime import UTC, datetime, timedelta

from rich.console import Console

from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_cli.views import runs
from ratchet_workflows.following.runs import RunNews

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


def panel(view: RunNews) -> str:
    console = Console(width=120)
    with console.capture() as captured:
        console.print(runs.panel(view))
    return captured.get()


def test_before_the_first_step_each_situation_is_a_line() -> None:
    view = RunNews("run_1")
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
    view = RunNews("run_1")
    told = message(pb.Run.STATE_QUEUED)
    told.run.notices.append(pb.Notice(step=3, message="completions repeat themselves", guard="repetition"))
    view.update(told)
    assert "run_1: at step 3: completions repeat themselves" in view.news()
    assert view.news() == []
    assert "completions repeat themselves" in panel(view)


def test_steps_are_said_with_what_they_measured_and_the_time_left() -> None:
    view = RunNews("run_1")
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
    view = RunNews("run_1")
    view.update(message(pb.Run.STATE_RUNNING, step(1, 0)))
    view.news()
    view.update(message(pb.Run.STATE_STARTING, attempt=2))
    assert view.news() == ["run_1: starting (attempt 2)"]


def test_a_panel_leaves_the_error_to_the_command() -> None:
    view = RunNews("run_1")
    failed = message(pb.Run.STATE_FAILED)
    failed.run.failure.message = "the job died"
    view.update(failed)
    assert "the job died" not in panel(view)


def test_a_phase_that_began_before_the_watch_counts_from_its_beginning() -> None:
    view = RunNews("run_1")
    loading = message(pb.Run.STATE_RUNNING, phase=pb.Run.PHASE_LOADING_POLICY)
    loading.run.phase_time.FromDatetime(datetime.now(UTC) - timedelta(seconds=90))
    view.update(loading)
    assert "loading the policy in the rollout service, 1 min 30 s" in panel(view)
