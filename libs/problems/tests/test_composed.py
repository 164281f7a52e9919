"""What holds for every composed problem."""

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest

from ratchet_problems import CallTest, Problem, data_digest, load
from ratchet_problems.composed import SPLITS
from ratchet_problems.composed.generate import QUOTAS, posed
from ratchet_problems.composed.vocabulary import AFTERS, FILTERS, FINISHERS, MAPS, SOURCES

Judge = Callable[[Problem, str], list[str]]

PROBLEMS = [problem for split in SPLITS for problem in load(f"composed/{split}")]
HELD_OUT = [*load("composed/validation"), *load("composed/test")]


def test_there_are_thousands_and_all_are_distinct() -> None:
    assert len(PROBLEMS) >= 2_000
    for distinct in ("id", "prompt", "digest"):
        assert len({getattr(problem, distinct) for problem in PROBLEMS}) == len(PROBLEMS)


@pytest.mark.parametrize("split", SPLITS)
def test_a_split_has_the_promised_mix_and_each_prefix_about_the_same(split: str) -> None:
    problems = load(f"composed/{split}")
    mix = {level: sum(problem.difficulty == level for problem in problems) for level in range(1, 6)}
    assert {level: count for level, count in mix.items() if count} == QUOTAS[split]
    prefix = load(f"composed/{split}", limit=100)
    for level, count in QUOTAS[split].items():
        assert abs(sum(problem.difficulty == level for problem in prefix) - 100 * count / len(problems)) < 15


def test_no_structure_is_in_two_splits() -> None:
    structures = [{problem.structure for problem in load(f"composed/{split}")} for split in SPLITS]
    train, validation, test = structures
    assert train.isdisjoint(validation | test)
    assert validation.isdisjoint(test)


def test_every_operation_of_a_held_out_composition_is_trained_on() -> None:
    def operations(problems: object) -> set[str]:
        assert isinstance(problems, (list, tuple))
        return {name for problem in problems for name in problem.structure.split(">")}

    assert operations(HELD_OUT) <= operations(load("composed/train"))


def test_held_out_problems_are_compositions() -> None:
    assert all(">" in problem.structure and problem.difficulty > 1 for problem in HELD_OUT)


def test_the_vocabulary_is_used_up() -> None:
    used = {name for problem in PROBLEMS for name in problem.structure.split(">")}
    assert used == {operation.name for table in (FILTERS, MAPS, FINISHERS, AFTERS) for operation in table}
    assert {problem.id.split("/")[1] for problem in PROBLEMS} == {source.name for source in SOURCES}


def test_no_two_problems_have_the_same_tests() -> None:
    assert len({problem.tests for problem in PROBLEMS}) == len(PROBLEMS)


def test_every_reference_passes_its_tests(judge: Judge) -> None:
    assert [wrong for problem in PROBLEMS for program in problem.references for wrong in judge(problem, program)] == []


def test_a_program_that_leaves_a_step_out_fails_some_test(judge: Judge) -> None:
    for split in SPLITS:
        for one in posed()[split]:
            for simpler in one.composition.simpler():
                assert judge(one.problem, simpler.as_expression()), one.problem.id


def test_tests_begin_with_edge_cases() -> None:
    for problem in PROBLEMS:
        first = problem.tests[0]
        assert isinstance(first, CallTest)
        assert ast.literal_eval(first.args)[0] in ([], "", {}, 0)
        assert 8 <= len(problem.tests) <= 16


def test_prompts_are_short() -> None:
    assert max(len(problem.prompt.split()) for problem in PROBLEMS) <= 45


def test_every_process_generates_the_same() -> None:
    code = "import ratchet_problems as r; print(r.data_digest(r.load('composed/test')))"
    run = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True)
    assert run.stdout.strip() == data_digest(load("composed/test"))


def test_demonstrations_are_train_problems_of_which_about_half_are_solved(judge: Judge) -> None:
    train = {problem.prompt for problem in load("composed/train")}
    shown: tuple[Problem, ...] = load("composed/demonstrations", limit=1000)
    assert {problem.prompt for problem in shown} <= train
    solved = sum(not judge(problem, problem.references[0]) for problem in shown)
    assert 500 <= solved <= 650
