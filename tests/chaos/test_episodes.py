"""kill -9 of each part once amid an evaluation of a harness: no fault is a reward, and none a wrong answer."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_client import Client
from tests.e2e.conftest import Platform

from .killing import flush_redis, kill_redis, kill_vllm, wait_until
from .test_evaluations import has_ended, kill_eval, kill_rollout, kill_sandbox

pytestmark = [pytest.mark.e2e, pytest.mark.chaos, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
SOLVED, SAMPLES = "ratchet/csv-to-json", 12
AGENT = """
import json, os, subprocess, time, urllib.request

messages = []
for turn in range(4):
    messages.append({"role": "user", "content": "Say a word."})
    body = {"model": "any", "messages": messages, "max_tokens": 4}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        messages.append({"role": "assistant", "content": json.load(answer)["choices"][0]["message"]["content"]})
    time.sleep(0.5)
if "people" in open("/tmp/instruction.md").read():
    subprocess.run(["bash", "/tmp/harness/solve.sh"], check=True)
"""


@pytest.fixture(scope="module")
def tasks(platform: Platform) -> str:
    added = platform.ratchet("data", "add", "--name", "agents", str(EXAMPLES / "tasks"))
    assert added.returncode == 0, added.stderr
    return "agents@1"


@pytest.mark.parametrize("fault", [kill_eval, kill_sandbox, kill_rollout, kill_vllm, kill_redis, flush_redis])
def test_no_fault_is_a_verdict(
    platform: Platform, client: Client, tasks: str, fault: Callable[[Platform], None]
) -> None:
    files = {"agent.py": AGENT, "solve.sh": (EXAMPLES / "tasks/csv-to-json/solution/solve.sh").read_text()}
    command = ["python", "/tmp/harness/agent.py"]
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=model_pb2.VersionRef(model="starter", number=1)),
        problems=problem_pb2.ProblemSetRef(name=tasks),
        environment=environment_pb2.EnvironmentSpec(name="harness", command=command, files=files),
        samples_per_problem=SAMPLES,
    )
    id = client.evaluations.create(spec).id
    wait_until(lambda: client.evaluations.get(id).samples_done >= 4, 400, pause=0.1)
    assert client.evaluations.get(id).samples_done < 4 * SAMPLES, "it is under way"
    fault(platform)
    wait_until(lambda: has_ended(client, id), 600)
    evaluation = client.evaluations.get(id)
    assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
    assert dict(evaluation.verdicts) == {"PASSED": SAMPLES, "FAILED": 3 * SAMPLES}
    found = {(one.problem_id == SOLVED, one.detail) for one in client.evaluations.samples(id)}
    assert found == {(True, "reward 1; 4 answers of the model"), (False, "reward 0; 4 answers of the model")}
