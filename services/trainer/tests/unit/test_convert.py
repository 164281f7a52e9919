from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ratchet.common.v1 import common_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from trainer_service import convert
from trainer_service.domain.algorithms import ALGORITHMS
from trainer_service.domain.run import Checkpoint, Run, RunId, State
from trainer_service.domain.spec import Hyperparameters, ModelRef, Priority, ProblemSetRef, Resources

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_an_empty_request_says_nothing() -> None:
    spec = convert.spec_from_proto(pb.RunSpec())
    assert (spec.base, spec.algorithm, spec.priority, spec.validation_problems) == (None, "", "", None)
    assert spec.hyperparameters == Hyperparameters()


def test_zero_is_a_number_and_not_an_open_choice() -> None:
    message = pb.RunSpec(hyperparameters=pb.Hyperparameters(kl_coefficient=0.0, batch_size=0))
    assert convert.spec_from_proto(message).hyperparameters == Hyperparameters(kl_coefficient=0.0, batch_size=0)


def test_what_is_not_known_is_kept_to_be_named() -> None:
    spec = convert.spec_from_proto(pb.RunSpec(algorithm=99, priority=7))  # type: ignore[arg-type]
    assert (spec.algorithm, spec.priority) == ("99", "7")


def test_every_algorithm_of_the_proto_has_a_row() -> None:
    named = {name.removeprefix("ALGORITHM_").lower() for name in pb.Algorithm.keys()}  # noqa: SIM118 - not a dict
    assert named - {"unspecified"} == set(ALGORITHMS)


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
@pytest.mark.parametrize(
    "base", [ModelRef("version", "starter@1"), ModelRef("alias", "starter:champion"), ModelRef("path", "/models/s")]
)
def test_a_complete_spec_survives_the_way_there_and_back(
    algorithm: str, base: ModelRef, make_complete_spec: Any
) -> None:
    spec = replace(
        make_complete_spec(algorithm=algorithm),
        base=base,
        display_name="a name",
        resources=Resources(1, 2, "cpu"),
        seed=7,
        validate_every=2,
        checkpoint_every=1,
        loggers=("console", "tensorboard"),
        output_model="coder",
        priority=Priority.HIGH,
        verl_overrides=("trainer.x=1",),
    )
    assert convert.spec_from_proto(convert.spec_to_proto(spec)) == spec


def test_digests_of_problem_sets_go_out_and_are_not_taken_in(make_complete_spec: Any) -> None:
    spec = make_complete_spec(problems=ProblemSetRef("basics", 3, "sha256:d"))
    message = convert.spec_to_proto(spec)
    assert message.problems == common_pb2.ProblemSetRef(name="basics", limit=3, digest="sha256:d")
    assert convert.spec_from_proto(message).problems == ProblemSetRef("basics", 3)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_counterpart(state: State, make_complete_spec: Any) -> None:
    run = Run.create(RunId("run_1"), make_complete_spec(), NOW)
    best = Checkpoint(3, "/exports/3", "sha256:p", NOW, 0.0)
    message = convert.run_to_proto(replace(run, state=state, best_checkpoint=best, start_time=NOW))
    assert convert.state_from_proto(message.state) is state
    assert message.best_checkpoint.HasField("validation_score")
    assert (message.HasField("start_time"), message.HasField("end_time")) == (True, False)
    assert convert.checkpoint_from_proto(message.best_checkpoint) == best


def test_a_step_belongs_to_the_attempt_that_reports_it() -> None:
    step = pb.Step(number=3, metrics={"loss": 0.5}, policy_id="sha256:p", attempt=9)
    reported = convert.step_from_proto(pb.ReportStepRequest(run_id="run_1", attempt=2, step=step, platform_faults=4))
    assert (reported.number, reported.attempt, reported.platform_faults) == (3, 2, 4)
    assert dict(reported.metrics) == {"loss": 0.5}
