"""Ten gradings of the same samples, on a machine that others keep busy: ten equal results."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

import ratchet_problems
from ratchet.common.v1 import problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_client import Client
from ratchet_client.calls import to_json
from tests.e2e.judging import Judges, judges

from .killing import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(900)]

SET, PROBLEMS, GRADINGS = "composed/test", 40, 10
WORKS = "import time\nwhile time.process_time() < {0}:\n    pass\n"
"""So many seconds of processor time before what comes next."""


def has_ended(client: Client, id: str) -> bool:
    return client.evaluations.get(id).end_time.seconds > 0


@pytest.fixture(scope="module")
def judging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    with judges(tmp_path_factory.mktemp("judges"), tmp_path_factory.mktemp("data")) as running:
        yield running


@pytest.fixture
def load() -> Iterator[None]:
    """Two processes for each core, that do nothing but keep it busy."""
    with ExitStack() as stack:
        for _ in range(2 * len(os.sched_getaffinity(0))):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def samples() -> list[eval_pb2.ImportedSample]:
    found = []
    for number, problem in enumerate(ratchet_problems.load(SET)[:PROBLEMS]):
        right = problem.references[0]
        texts = [
            right,
            "def solve(*args):\n    return 'no'",
            "def solve(*args):\n    return [1] * 10**9" if number < 4 else "def solve(*args):\n    return {}[1]",
            # the limit is 5 s of its own
            WORKS.format(3) + right if number == 0 else WORKS.format(99) if number == 1 else "def solve(",
        ]
        found += [
            eval_pb2.ImportedSample(problem_id=problem.id, index=index, solution=text)
            for index, text in enumerate(texts)
        ]
    return found


def test_ten_equal_results(judging: Judges, load: None) -> None:
    given = samples()
    spec = eval_pb2.EvaluationSpec(
        problems=problem_pb2.ProblemSetRef(name=SET, limit=PROBLEMS),
        samples_per_problem=4,
        imported_samples=len(given),
        k=[1, 2],
    )
    results = []
    with judging.client() as client:
        for _ in range(GRADINGS):
            id = client.evaluations.create(spec).id
            client.evaluations.add_samples(id, given)
            wait_until(partial(has_ended, client, id), 400, pause=0.2)
            evaluation = client.evaluations.get(id)
            assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
            judged = [
                (one.problem_id, one.index, verdict_pb2.Verdict.Name(one.verdict), one.failure, one.tests_passed)
                for one in client.evaluations.samples(id)
            ]
            results.append((judged, [to_json(one) for one in evaluation.benchmarks]))
    verdicts = {(name, index): verdict for name, index, verdict, *_ in results[0][0]}
    first, second, *_ = (problem.id for problem in ratchet_problems.load(SET))
    assert verdicts[first, 3] == "VERDICT_PASSED", "3 s of processor time are within 5, however long they take"
    assert verdicts[second, 3] == "VERDICT_TIME_LIMIT"
    assert verdicts[first, 2] == "VERDICT_MEMORY_LIMIT"
    assert len(results[0][0]) == len(given)
    assert all(result == results[0] for result in results[1:])
