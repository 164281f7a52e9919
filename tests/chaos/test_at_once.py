"""An evaluation and a release at once, while parts of the platform are killed and stopped: the evaluation says what is
known of the model, the release of a better version succeeds, and the champion moved once."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import pytest

import ratchet_benchmarks
from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet.registry.v1 import registry_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.e2e import table_model
from tests.e2e.conftest import Platform

from .killing import kill, kill_vllm, stop, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(1500)]

SET, PROBLEMS, SAMPLES = "composed/test", 40, 16
MODEL = "at-once"
WRONG = "```python\ndef nothing():\n    return None\n```"
TRAFFIC = 2
STOPPED_S = 8.0


def kill_gateway(platform: Platform) -> None:
    kill(platform, "gateway_service.main")


def kill_eval(platform: Platform) -> None:
    kill(platform, "eval_service.main")


FAULTS: tuple[Callable[[Platform], None], ...] = (
    kill_gateway,
    stop(STOPPED_S, "registry_service.main"),
    kill_eval,
    stop(STOPPED_S, "sandbox_service.main"),
    stop(STOPPED_S, "gateway_service.main"),
    kill_vllm,
)


@pytest.fixture
def answers() -> dict[str, str]:
    """The right one to each problem as it is put."""
    problems = ratchet_benchmarks.load(SET, PROBLEMS).problems
    return {
        ratchet_benchmarks.put(SET, problem, "chat").messages[-1].content: f"```python\n{problem.references[0]}\n```"
        for problem in problems
    }


def version(number: int) -> model_pb2.VersionRef:
    return model_pb2.VersionRef(model=MODEL, number=number)


def evaluate(client: Client, number: int, samples: int = 1, seed: int = 0) -> str:
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=version(number)),
        problems=problem_pb2.ProblemSetRef(name=SET, limit=PROBLEMS),
        samples_per_problem=samples,
        k=[1],
        max_tokens=8,
        seed=seed,
    )
    return client.evaluations.create(spec).id


def passed_gate(client: Client) -> str:
    before, after = (client.evaluations.wait(evaluate(client, number)) for number in (1, 2))
    gate = client.models.wait_gate(client.models.create_gate(version(2), after.id, before.id).id)
    assert gate.state == registry_pb2.Gate.STATE_PASSED, gate
    return gate.id


def release(client: Client, gate_id: str) -> str:
    """Two stages of a quarter of a minute or more. What the faults cost in time is no fault of the candidate."""
    stages = [release_pb2.ReleaseStage(percent=percent, min_samples=30) for percent in (50, 100)]
    for stage in stages:
        stage.min_duration.FromSeconds(15)
    spec = release_pb2.ReleaseSpec(candidate=version(2), gate_id=gate_id, stages=stages)
    spec.bounds.max_latency_ratio = 100
    spec.unproven = release_pb2.ReleaseSpec.UNPROVEN_PROCEED  # nobody gives feedback
    spec.watch.SetInParent()
    return client.releases.create(spec).id


@contextmanager
def traffic(platform: Platform, answers: Mapping[str, str]) -> Iterator[list[str]]:
    """Users who ask again when they get no answer. What they were answered."""
    stop_asking, answered = threading.Event(), list[str]()

    def ask() -> None:
        with platform.client() as client:
            while not stop_asking.is_set():
                for prompt in answers:
                    with suppress(ApiError, Unreachable):
                        answered.append(client.chat(MODEL, prompt, max_tokens=8).text)
                    if stop_asking.wait(0.05):
                        return

    users = [threading.Thread(target=ask) for _ in range(TRAFFIC)]
    for one in users:
        one.start()
    try:
        yield answered
    finally:
        stop_asking.set()
        for one in users:
            one.join()


def test_both_end_rightly(platform: Platform, client: Client, answers: dict[str, str]) -> None:
    half = {prompt: text if number % 2 else WRONG for number, (prompt, text) in enumerate(answers.items())}
    for number, known in ((1, half), (2, answers)):
        folder = table_model.write(platform.home.path / "models" / f"{MODEL}-{number}", known)
        client.models.create_version(MODEL, str(folder))
        made = client.models.wait_version(MODEL, number)
        assert made.policy_id, made.failure
    client.models.set_alias(MODEL, "champion", 1)
    gate_id = passed_gate(client)
    with traffic(platform, answers) as answered:
        wait_until(lambda: bool(answered), 400)
        evaluation_id, release_id = evaluate(client, 1, SAMPLES, seed=7), release(client, gate_id)
        wait_until(lambda: reads(lambda: client.evaluations.get(evaluation_id).samples_done >= 20), 400, pause=0.2)
        for fault in FAULTS:
            fault(platform)
            before = len(answered)
            wait_until(lambda before=before: len(answered) > before, 400)  # type: ignore[misc]
        wait_until(lambda: reads(lambda: client.releases.get(release_id).end_time.seconds > 0), 600)
    wait_until(lambda: reads(lambda: client.evaluations.get(evaluation_id).end_time.seconds > 0), 600)

    ended = client.releases.get(release_id)
    assert ended.state == release_pb2.Release.STATE_SUCCEEDED, (ended.failure, ended.events)
    moves = [(one.from_number, one.to_number) for one in client.models.alias_history(MODEL, "champion")]
    assert moves == [(1, 2), (0, 1)], "newest first"

    evaluation = client.evaluations.get(evaluation_id)
    assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
    assert evaluation.samples_done == PROBLEMS * SAMPLES
    assert evaluation.verdicts["PASSED"] == PROBLEMS * SAMPLES // 2
    assert evaluation.pass_at_k[0].estimate.value == 0.5


def reads(condition: Callable[[], bool]) -> bool:
    """False while nobody answers."""
    try:
        return condition()
    except (ApiError, Unreachable):
        return False
