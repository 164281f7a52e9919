"""Failure classes, and the hash by which a completion is found again."""

import pytest

from eval_service.domain.sample import FailureClass, judgement_of, request_of
from ratchet_environments import Task
from ratchet_policies import ChatPrompt, Sampling, TextPrompt, TokenPrompt
from ratchet_problems import CallTest, Message, Problem, StdioTest
from ratchet_rewards import Grade

PROBLEM = Problem("p", "Write f.", (CallTest("[1]", "2"),), entry_point="f")
CODE = "def f(x): return x"


@pytest.mark.parametrize(
    ("verdict", "answer", "failure"),
    [
        ("PASSED", CODE, None),
        ("FAILED", CODE, FailureClass.WRONG),
        ("TIME_LIMIT", CODE, FailureClass.TIMEOUT),
        ("MEMORY_LIMIT", CODE, FailureClass.MEMORY),
        ("RUNTIME_ERROR", CODE, FailureClass.CRASH),
        ("COMPILE_ERROR", CODE + "(", FailureClass.CRASH),
        ("OUTPUT_LIMIT", CODE, FailureClass.CRASH),
        ("TAMPERED", "import os", FailureClass.TAMPERED),
        ("RUNTIME_ERROR", "I cannot help with that.", FailureClass.NO_CODE),
        ("COMPILE_ERROR", "", FailureClass.NO_CODE),
    ],
)
def test_failure_classes(verdict: str, answer: str, failure: FailureClass | None) -> None:
    for is_program in (False, True):
        task = Task.of(PROBLEM, is_program=is_program)
        assert judgement_of(Grade(verdict, 0, 1), task, answer).failure == failure


def test_a_script_has_code_unless_it_is_empty() -> None:
    script = Task.of(Problem("p", "Print 1.", (StdioTest("", "1"),)))
    assert judgement_of(Grade("FAILED", 0, 1), script, "  ").failure is FailureClass.NO_CODE
    assert judgement_of(Grade("FAILED", 0, 1), script, "print(2)").failure is FailureClass.WRONG


def test_a_request_is_all_that_a_completion_depends_on() -> None:
    chat, sampling = ChatPrompt((Message("user", "a"),)), Sampling(temperature=1.0, max_tokens=9, seed=1)
    same = request_of("w", chat, sampling)
    assert request_of("w", ChatPrompt((Message("user", "a"),)), sampling) == same
    others = [
        request_of("x", chat, sampling),
        request_of("w", TextPrompt("a"), sampling),
        request_of("w", TokenPrompt((1, 2)), sampling),
        request_of("w", ChatPrompt((Message("system", "a"),)), sampling),
        request_of("w", ChatPrompt((Message("user", "a"),), chat_template="{{ mine }}"), sampling),
        *(
            request_of("w", chat, Sampling(**{"temperature": 1.0, "max_tokens": 9, "seed": 1, **other}))  # type: ignore[arg-type]
            for other in ({"temperature": 0.5}, {"max_tokens": 8}, {"seed": 2}, {"stop": ("x",)})
        ),
    ]
    assert len({same, *others}) == 10
    greedy = [request_of("w", chat, Sampling(temperature=0.0, max_tokens=9, seed=seed)) for seed in (1, 2)]
    assert greedy[0] == greedy[1]
