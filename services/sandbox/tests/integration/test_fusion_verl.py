"""verl's own reward client against the door: its two files as they lie in the trainer's environment, unmodified.

They need nothing but requests, so they are loaded here without the rest of verl. In verl itself:
services/trainer/tests/verl/test_sandbox_fusion.py.
"""

import importlib.util
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ratchet_kit.errors import Unavailable
from sandbox_service.domain.jobs import End, Job, Report, Stage
from sandbox_service.fusion.running import PATIENCE

from ..doubles import ScriptedExecutor

pytestmark = pytest.mark.integration

ENVIRONMENT = Path(__file__).parents[4] / ".venvs" / "trainer"
CLIENT = "lib/python3*/site-packages/verl/utils/reward_score/sandbox_fusion/__init__.py"
SUM = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"
CASES = {"inputs": ["1 2\n", "3 4\n", "10 20\n"], "outputs": ["3\n", "7\n", "30\n"]}


@pytest.fixture(scope="module")
def verl() -> Iterator[ModuleType]:
    found = next(iter(ENVIRONMENT.glob(CLIENT)), None)
    if found is None:
        pytest.skip(f"{ENVIRONMENT} holds no verl: scripts/setup.sh trainer")
    name = "verl_sandbox_fusion"
    spec = importlib.util.spec_from_file_location(name, found, submodule_search_locations=[str(found.parent)])
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name], sys.modules[f"{name}.utils"]


@pytest.fixture(scope="module")
def url(fusion_service: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    with fusion_service() as url:
        yield f"{url}/run_code"


def score(verl: ModuleType, url: str, completion: str, cases: Any, **more: Any) -> tuple[float, list[dict[str, Any]]]:
    graded: tuple[float, list[dict[str, Any]]] = verl.compute_score(
        url, threading.Semaphore(4), 1024, completion, cases, **more
    )
    return graded


def statuses(graded: tuple[float, list[dict[str, Any]]]) -> list[str]:
    return [entry["status"] for entry in graded[1]]


def test_right_wrong_and_partly_right(verl: ModuleType, url: str) -> None:
    right = score(verl, url, SUM, CASES)
    assert (right[0], statuses(right)) == (1.0, ["success"] * 3)
    wrong = score(verl, url, SUM.replace("a + b", "a - b"), json.dumps(CASES))
    assert (wrong[0], statuses(wrong)) == (0.0, ["wrong_answer"] * 3)
    partly = score(verl, url, SUM.replace("a + b", "min(a + b, 9)"), CASES, continuous=True)
    assert partly[0] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ("1 / 0", "runtime_error"),
        ("int a = 1", "runtime_error"),
        ("import sys; sys.exit(5)", "runtime_error"),
        ("import os; os.kill(os.getpid(), 9)", "runtime_error"),
        ("x = bytearray(8 << 30)", "runtime_error"),
        ("while True: pass", "timeout"),
        ("import time; time.sleep(60)", "timeout"),
        ("import os; os._exit(0)", "wrong_answer"),
        ("print('x' * 10**7)", "runtime_error"),
        ("a\0b", "runtime_error"),
    ],
)
def test_each_failure_has_verls_word(verl: ModuleType, url: str, program: str, status: str) -> None:
    one = {"inputs": ["1 2\n"], "outputs": ["3\n"]}
    graded = score(verl, url, f"```python\n{program}\n```", one, timeout=1)
    assert (graded[0], statuses(graded)) == (0.0, [status])
    assert graded[1][0]["api_request_error"] is None


def test_functions_and_asserts(verl: ModuleType, url: str) -> None:
    method = "    def total(self, items: List[int], more):\n        return sum(items) + more\n"
    function = f"```python\nclass Solution:\n{method}```"
    calls = {"fn_name": "total", "inputs": ["[1, 2]\n3", "[]\n0"], "outputs": ["6", "0"]}
    assert score(verl, url, function, calls)[0] == 1.0
    assert score(verl, url, function.replace("+", "-"), calls)[0] == 0.5
    asserts = {"assert_case": ["assert add(1, 2) == 3", "assert add(1, 2) == 4"]}
    assert score(verl, url, "```python\ndef add(a, b):\n    return a + b\n```", asserts)[0] == 0.5


def test_sixty_four_cases_at_once(verl: ModuleType, url: str) -> None:
    cases = {"inputs": [f"{i} 1\n" for i in range(64)], "outputs": [f"{i + 1}\n" for i in range(64)]}
    assert score(verl, url, SUM, cases)[0] == 1.0


def test_a_fault_of_the_platform_is_no_score(
    verl: ModuleType, door_over: Callable[..., AbstractContextManager[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away for longer than the door holds a request: verl is told 504, asks again, and scores what then comes."""
    monkeypatch.setattr("sandbox_service.fusion.running.PATIENCE", timedelta(seconds=-1.5))
    asked: list[Job] = []

    async def script(job: Job) -> Report:
        asked.append(job)
        if len(asked) <= 6:
            raise Unavailable("away")
        return Report(End.EXITED, 0, Stage.ENDED, timedelta(), timedelta(), "scripted", stdout="3\n")

    utils = sys.modules["verl_sandbox_fusion.utils"]
    seen: list[int] = []
    post = utils.requests.post

    def watched(*args: Any, **kwargs: Any) -> Any:
        answer = post(*args, **kwargs)
        seen.append(answer.status_code)
        return answer

    monkeypatch.setattr(utils.requests, "post", watched)
    with door_over(ScriptedExecutor(script)) as url:
        graded = score(verl, f"{url}/run_code", SUM, {"inputs": ["1 2\n"], "outputs": ["3\n"]}, timeout=1)
    assert (graded[0], seen) == (1.0, [504, 200])


def test_the_door_answers_before_verl_gives_up(verl: ModuleType) -> None:
    assert PATIENCE.total_seconds() < sys.modules["verl_sandbox_fusion.utils"].API_TIMEOUT
