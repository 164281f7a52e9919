from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from ratchet.common.v1 import environment_pb2, problem_pb2
from ratchet.trainer.v1 import job_report_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_environments import EnvironmentSpec
from ratchet_kit.errors import Failure, InvalidArgument
from ratchet_kit.faults import Faults
from ratchet_kit.names import AliasRef, AnyModel, BareModel, Location, VersionRef
from ratchet_kit.statistics import Estimate
from ratchet_kit.work import Priority
from trainer_service import convert
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunFilter
from trainer_service.domain.run.run import Forecast, Phase, Run, RunId, State
from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.curriculum import Curriculum, Stage
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.domain.spec.spec import ProblemSetRef, Resources
from trainer_service.domain.spec.thresholds import Thresholds

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_empty_request_says_nothing() -> None:
    faults = Faults()
    spec = convert.spec_from_proto(pb.RunSpec(), faults)
    assert [fault.field for fault in faults.violations] == ["base"]
    assert (spec.resources, spec.validate_every, spec.problems.limit) == (Resources(), None, None)
    assert (spec.base, spec.algorithm, spec.priority, spec.validation_problems) == (None, "", "", None)
    assert spec.hyperparameters == Hyperparameters()


def test_zero_is_a_number_and_not_an_open_choice() -> None:
    message = pb.RunSpec(hyperparameters=pb.Hyperparameters(kl_coefficient=0.0, batch_size=0))
    assert convert.spec_from_proto(message, Faults()).hyperparameters == Hyperparameters(
        kl_coefficient=0.0, batch_size=0
    )


def test_a_schedule_goes_by_its_name() -> None:
    message = pb.RunSpec(hyperparameters=pb.Hyperparameters(learning_rate_schedule="LEARNING_RATE_SCHEDULE_COSINE"))
    assert convert.spec_from_proto(message, Faults()).hyperparameters == Hyperparameters(
        learning_rate_schedule="cosine"
    )


def test_a_guard_that_is_turned_off_is_no_open_choice() -> None:
    message = pb.RunSpec(thresholds=pb.Thresholds(kl_limit=0.0))
    assert convert.spec_from_proto(message, Faults()).thresholds == Thresholds(kl_limit=0.0)
    assert convert.spec_from_proto(pb.RunSpec(), Faults()).thresholds == Thresholds()


def test_an_environment_crosses_both_ways(make_complete_spec: Any) -> None:
    message = pb.RunSpec(environment=environment_pb2.EnvironmentSpec(name="edits"))
    assert convert.spec_from_proto(message, Faults()).environment == EnvironmentSpec("edits")
    assert convert.spec_from_proto(pb.RunSpec(), Faults()).environment is None
    complete = make_complete_spec(environment=EnvironmentSpec("edits", 4))
    again = convert.spec_from_proto(convert.spec_to_proto(complete), Faults())
    assert again.environment == EnvironmentSpec("edits", 4)
    plugin = replace(complete, environment=EnvironmentSpec("plugin:hints", 4, "sha256:h"))
    shown = convert.spec_to_proto(plugin)
    assert (shown.environment.name, shown.environment_digest) == ("plugin:hints", "sha256:h")
    assert convert.spec_from_proto(shown, Faults()).environment == EnvironmentSpec("plugin:hints", 4)  # found again


def test_what_is_not_known_is_kept_to_be_named() -> None:
    spec = convert.spec_from_proto(pb.RunSpec(algorithm=99, priority=7), Faults())  # type: ignore[arg-type]
    assert (spec.algorithm, spec.priority) == ("99", "7")


def test_every_algorithm_of_the_proto_has_a_row() -> None:
    named = {name.removeprefix("ALGORITHM_").lower() for name in pb.Algorithm.keys()}  # noqa: SIM118 - not a dict
    assert named - {"unspecified"} == set(ALGORITHMS)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize(
    "base",
    [VersionRef("starter", 1), AliasRef("starter", "champion"), BareModel("starter"), Location("/models/s")],
)
def test_a_complete_spec_survives_the_way_there_and_back(
    algorithm: str, base: AnyModel, make_complete_spec: Any
) -> None:
    spec = replace(
        make_complete_spec(algorithm=algorithm),
        base=base,
        display_name="a name",
        resources=Resources(1, 2, "cpu"),
        seed=7,
        validate_every=2,
        checkpoint_every=1,
        max_tokens=10**10,
        loggers=("console", "tensorboard"),
        output_model="coder",
        priority=Priority.HIGH,
        verl_overrides=("trainer.x=1",),
        thresholds=Thresholds(tampered_limit=0.5),
        refuse_long_prompts=True,
        prompt_form="completion",
        system="Be brief.",
        chat_template="{{ messages }}",
        kept_groups=0,
        all_answers=True,
        follow_problems=True,
        examples=ProblemSetRef("mine@1/train", 3),
        curriculum=Curriculum(0.5, (Stage(1, 2, ("lists",), 3, 0.5), Stage())),
    )
    assert convert.spec_from_proto(convert.spec_to_proto(spec), Faults()) == spec


def test_digests_of_problem_sets_go_out_and_are_not_taken_in(make_complete_spec: Any) -> None:
    spec = make_complete_spec(problems=ProblemSetRef("basics", 3, "sha256:d"))
    message = convert.spec_to_proto(spec)
    assert message.problems == problem_pb2.ProblemSetRef(name="basics", limit=3, digest="sha256:d")
    assert convert.spec_from_proto(message, Faults()).problems == ProblemSetRef("basics", 3)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_counterpart(state: State, make_complete_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_complete_spec(), NOW)
    best = Checkpoint(3, "/exports/3", "sha256:p", NOW, 0.0, Estimate(0.0, 0.0, 0.25))
    message = convert.run_to_proto(replace(run, state=state, best_checkpoint=best, start_time=NOW))
    assert convert.filter_from_proto(pb.ListRunsRequest(state=message.state)).state is state
    assert message.best_checkpoint.HasField("validation_score")
    assert (message.HasField("start_time"), message.HasField("end_time")) == (True, False)
    assert convert.checkpoint_from_proto(message.best_checkpoint) == best


def test_a_state_that_is_none_is_refused() -> None:
    assert convert.filter_from_proto(pb.ListRunsRequest()) == RunFilter()
    with pytest.raises(InvalidArgument, match=r"state must be one of .*STATE_QUEUED"):
        convert.filter_from_proto(pb.ListRunsRequest(state=cast(Any, 77)))


def test_a_filter_is_of_a_model_and_no_version() -> None:
    assert convert.filter_from_proto(pb.ListRunsRequest(model="starter")).model == "starter"
    with pytest.raises(InvalidArgument, match="model must name a model"):
        convert.filter_from_proto(pb.ListRunsRequest(model="starter@1"))


def test_a_time_that_no_calendar_has_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="after_time must be a time"):
        convert.filter_from_proto(pb.ListRunsRequest(after_time=Timestamp(seconds=1 << 60)))


def test_a_step_belongs_to_the_attempt_that_reports_it() -> None:
    step = pb.Step(number=3, metrics={"loss": 0.5}, policy_id="sha256:p", attempt=9)
    reported = convert.step_from_proto(
        job_report_pb2.ReportStepRequest(run_id="run_1", attempt=2, step=step, platform_faults=4)
    )
    assert (reported.number, reported.attempt, reported.platform_faults) == (3, 2, 4)
    assert dict(reported.metrics) == {"loss": 0.5}


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_its_counterpart(phase: Phase, make_complete_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_complete_spec(), NOW)
    message = convert.run_to_proto(replace(run, phase=phase, phase_time=NOW))
    assert convert.phase_from_proto(message.phase) is phase
    assert convert.run_to_proto(run).phase == pb.Run.PHASE_UNSPECIFIED


def test_what_a_run_takes_and_what_was_said_of_it_go_out(make_complete_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_complete_spec(), NOW)
    assert not convert.run_to_proto(run).HasField("forecast")
    forecast = Forecast(8 << 30, None, timedelta(seconds=90))
    message = convert.run_to_proto(replace(run, forecast=forecast).noticed("a sentence", NOW, "kl"))
    assert (message.forecast.peak_bytes, message.forecast.step_time.seconds) == (8 << 30, 90)
    assert not message.forecast.HasField("limit_bytes")
    assert [(one.step, one.message, one.guard) for one in message.notices] == [(0, "a sentence", "kl")]


def test_a_failure_and_a_version_go_out(make_complete_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_complete_spec(), NOW)
    plain = convert.run_to_proto(run)
    assert (plain.HasField("failure"), plain.HasField("version")) == (False, False)
    full = convert.run_to_proto(replace(run, failure=Failure("DATA_LOSS", "no"), version=VersionRef("coder", 2)))
    assert (full.failure.message, full.version.model, full.version.number) == ("no", "coder", 2)
    finished = job_report_pb2.ReportFinishedRequest(failure=full.failure)
    assert convert.failure_of(finished) == Failure("DATA_LOSS", "no")
    assert convert.failure_of(job_report_pb2.ReportFinishedRequest()) is None


def test_a_run_from_before_there_were_forms_has_none(make_complete_spec: Any) -> None:
    message = convert.spec_to_proto(replace(make_complete_spec(), prompt_form=""))
    assert message.prompt_form == pb.PROMPT_FORM_UNSPECIFIED


def test_pairs_take_the_place_of_problems(make_spec: Any) -> None:
    held_out = problem_pb2.ProblemSetRef(name="held-out.jsonl")
    message = pb.RunSpec(pairs=problem_pb2.ProblemSetRef(name="pairs.jsonl", limit=3), validation_pairs=held_out)
    spec = convert.spec_from_proto(message, Faults())
    assert (spec.pairs, spec.problems.name) == (ProblemSetRef("pairs.jsonl", 3), "")
    assert spec.validation_pairs == ProblemSetRef("held-out.jsonl")
    assert convert.spec_from_proto(pb.RunSpec(), Faults()).pairs is None
