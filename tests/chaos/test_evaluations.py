"""kill -9 of each part once amid an evaluation: the same result as of one that nothing happened to."""

from collections.abc import Callable
from itertools import count, cycle
from typing import Any

import pytest

import ratchet_benchmarks
from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_client import ApiError, Client, Unreachable
from ratchet_client.calls import to_json
from tests.e2e import table_model
from tests.e2e.conftest import Platform

from .killing import flush_redis, kill, kill_redis, kill_vllm, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(900)]

SET, PROBLEMS, SAMPLES = "composed/test", 40, 24
ENDED = (eval_pb2.Evaluation.STATE_SUCCEEDED, eval_pb2.Evaluation.STATE_FAILED, eval_pb2.Evaluation.STATE_CANCELLED)
SEEDS = count()
"""A completion is drawn once for a seed: each evaluation draws its own."""


@pytest.fixture(scope="module")
def model(platform: Platform) -> model_pb2.ModelRef:
    """A version that solves every other problem, and fails at the others in several ways."""
    problems = ratchet_benchmarks.load(SET, PROBLEMS).problems
    bad = [
        "def solve(*args):\n    return 'no'",
        "def solve(*args):\n    raise ValueError",
        "def solve(",
        "I do not know.",
    ]
    sources = (wrong for pair in zip(cycle([""]), cycle(bad), strict=False) for wrong in pair)
    answers = {
        ratchet_benchmarks.put(SET, problem, "chat")
        .messages[-1]
        .content: f"```python\n{wrong or problem.references[0]}\n```"
        for problem, wrong in zip(problems, sources, strict=False)
    }
    folder = table_model.write(platform.home.path / "models" / "answers", answers)
    with platform.client() as client:
        client.models.create_version("answers", str(folder))
        version = client.models.wait_version("answers", 1)
    assert version.policy_id, version.failure
    return model_pb2.ModelRef(version=version.ref)


@pytest.fixture(scope="module")
def undisturbed(platform: Platform, model: model_pb2.ModelRef) -> dict[str, Any]:
    with platform.client() as client:
        id = create(client, model)
        wait_until(lambda: has_ended(client, id), 600)
        found = result(client, id)
    verdicts = {sample[3] for sample in found["samples"]}
    assert len(verdicts) > 3, f"not only {verdicts}"
    return found


def kill_eval(platform: Platform) -> None:
    kill(platform, "eval_service.main")


def kill_sandbox(platform: Platform) -> None:
    kill(platform, "sandbox_service.main")


def kill_rollout(platform: Platform) -> None:
    kill(platform, "rollout_service.main")


@pytest.mark.parametrize("fault", [kill_eval, kill_sandbox, kill_rollout, kill_vllm, kill_redis, flush_redis])
def test_the_same_result(
    platform: Platform,
    client: Client,
    model: model_pb2.ModelRef,
    undisturbed: object,
    fault: Callable[[Platform], None],
) -> None:
    id = create(client, model)
    wait_until(lambda: client.evaluations.get(id).samples_done >= 50, 400, pause=0.1)
    assert client.evaluations.get(id).samples_done < PROBLEMS * SAMPLES, "it is under way"
    fault(platform)
    wait_until(lambda: has_ended(client, id), 600)
    assert result(client, id) == undisturbed


def create(client: Client, model: model_pb2.ModelRef) -> str:
    spec = eval_pb2.EvaluationSpec(
        model=model,
        problems=problem_pb2.ProblemSetRef(name=SET, limit=PROBLEMS),
        samples_per_problem=SAMPLES,
        k=[1, 8],
        max_tokens=8,
        seed=next(SEEDS),
    )
    return client.evaluations.create(spec).id


def has_ended(client: Client, id: str) -> bool:
    try:
        return client.evaluations.get(id).state in ENDED
    except (ApiError, Unreachable):
        return False


def result(client: Client, id: str) -> dict[str, Any]:
    """All that an evaluation found, without what differs each time: ids, times and the seed."""
    evaluation = client.evaluations.get(id)
    assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
    assert evaluation.samples_done == PROBLEMS * SAMPLES
    samples = [
        (one.problem_id, one.index, one.completion, one.verdict, one.failure, one.tests_passed, one.policy_id)
        for one in client.evaluations.samples(id)
    ]
    scores = [to_json(one) for one in evaluation.benchmarks]
    return {"samples": samples, "scores": scores, "verdicts": dict(evaluation.verdicts)}
