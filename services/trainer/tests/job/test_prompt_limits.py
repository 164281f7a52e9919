import pytest

from ratchet_kit.errors import InvalidArgument
from ratchet_problems import CallTest, Problem
from trainer_service.job.samples.prompt_limits import fitting, left_out

PROBLEMS = [Problem(id=f"p{i}", prompt="Return x.", entry_point="f", tests=(CallTest.of([i], i),)) for i in range(3)]


def test_what_has_no_room_is_left_out_and_counted() -> None:
    found = fitting(PROBLEMS, [10, 300, 256], 256, leave_out=True)
    assert ([one.id for one in found.problems], found.left_out, found.longest) == (["p0", "p2"], 1, 300)
    assert left_out(found, None) == {
        "problems": 3,
        "problems_left_out": 1,
        "validation_left_out": 0,
        "longest_problem_tokens": 300,
    }


def test_where_all_have_room_nothing_is_said() -> None:
    found = fitting(PROBLEMS, [10, 20, 30], 30, leave_out=True)
    assert left_out(found, found) == {}
    assert left_out(found, fitting([], [], 30, leave_out=True)) == {}
    assert left_out(found, fitting(PROBLEMS, [10, 20, 31], 30, leave_out=True))["validation_left_out"] == 1


def test_it_is_refused_where_the_spec_wants_that() -> None:
    with pytest.raises(InvalidArgument, match="problem p1 has 300 tokens, and there is room for 256"):
        fitting(PROBLEMS, [10, 300, 20], 256, leave_out=False)


def test_a_step_needs_its_batch() -> None:
    found = fitting(PROBLEMS, [10, 300, 20], 256, leave_out=True)
    found.require(2)
    with pytest.raises(InvalidArgument, match="2 of 3 problems have room, and 3 at least are needed: the longest has"):
        found.require(3)
    with pytest.raises(InvalidArgument, match="0 of 3 problems have room"):
        fitting(PROBLEMS, [300, 300, 300], 256, leave_out=True)
