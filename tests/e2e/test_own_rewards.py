"""A reward of one's own from its template to a run's record: gateway, registry, sandbox and trainer as processes.

No job of the run is started: the trainer's cluster does not answer.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet.common.v1 import access_pb2, problem_pb2, verdict_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client import ApiError, Client
from ratchet_client.rewards import reward
from ratchet_problems import load
from ratchet_testing.ports import free_port

from .judging import Judges, judges

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MODELS = Path(__file__).parents[2] / "models"
CAGED = """
import json, socket, sys

try:
    socket.create_connection(("127.0.0.1", PORT), 1)
    caged = 0.0
except OSError:
    caged = 0.5
print(json.dumps([caged for _ in json.load(sys.stdin)["samples"]]))
"""


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judges]:
    services = ("registry", "sandbox", "trainer", "eval", "gateway")
    folders = (tmp_path_factory.mktemp("platform"), tmp_path_factory.mktemp("data"))
    nowhere = f"http://127.0.0.1:{free_port()}"
    with judges(*folders, services, RATCHET_SOURCES=str(MODELS), RAY_ADDRESS=nowhere) as running:
        yield running


def test_a_registered_reward_is_tried_trained_on_and_kept(platform: Judges, tmp_path: Path) -> None:
    assert platform.ratchet("new", "reward", "brevity", "--folder", str(tmp_path)).returncode == 0
    file = tmp_path / "brevity.py"
    first = platform.ratchet("reward", "add", str(file), "--description", "the template's")
    assert first.stdout.startswith("brevity@1  sha256:"), first.stderr
    again = platform.ratchet("reward", "add", str(file))
    assert again.stdout == first.stdout
    port = platform.targets["sandbox"].rpartition(":")[2]  # something listens there
    file.write_text(CAGED.replace("PORT", port))
    assert platform.ratchet("reward", "add", str(file)).stdout.startswith("brevity@2  ")

    problem = load("basics")[0]
    samples = tmp_path / "samples.jsonl"
    samples.write_text(json.dumps({"task_id": problem.id, "completion": problem.references[0]}) + "\n")
    tried = ("--samples", str(samples), "--problems", "basics", "--target", platform.targets["sandbox"], "--json")
    found = {}
    for name in ("brevity@1", "brevity@2", "brevity"):
        done = platform.ratchet("reward", "try", f"tests=0.5,{name}=0.5", *tried)
        assert done.returncode == 0, done.stderr
        [one] = json.loads(done.stdout)["samples"]
        assert one["verdict"] == "PASSED"
        found[name] = one["values"]["brevity"]
    assert found["brevity@2"] == found["brevity"] == 0.5 != found["brevity@1"]
    wrong = platform.ratchet("reward", "try", "brevity@3", *tried)
    assert (wrong.returncode, "reward brevity has no version 3; it has 1, 2" in wrong.stderr) == (1, True)

    model = MODELS / "starter"
    train = ("train", "--model", str(model), "--problems", "basics", "--detach")
    refused = platform.ratchet(*train, "--reward", "tests=0.9,brevty=0.1")
    assert refused.returncode == 3
    assert "in the registry: there is no reward 'brevty'; there is brevity" in " ".join(refused.stderr.split())
    made = platform.ratchet(*train, "--reward", "tests=0.9,brevity=0.1")
    assert made.returncode == 0, made.stderr
    with platform.client() as client:
        run = client.runs.get(made.stdout.split()[0])
        taken, newest = run.spec.reward.components[1], client.rewards.get("brevity")
        assert (taken.name, taken.version, taken.program) == ("brevity", 2, file.read_text())
        assert taken.digest == newest.digest
        assert (newest.runs, newest.last_run_id, newest.actor != "") == (1, run.id, True)
        with pytest.raises(ApiError, match=f"brevity@2 cannot be deleted: 1 run was made with it .{run.id}"):
            client.rewards.delete("brevity", 2)
        client.rewards.delete("brevity", 1)
        client.rewards.delete("brevity", 2, force=True)
        assert list(client.rewards.list()) == []
        assert client.runs.get(run.id).spec.reward == run.spec.reward
        client.runs.cancel(run.id)
    shown = platform.ratchet("runs", "show", run.id)
    assert "weighted_sum of tests_passed 0.9, brevity@2 0.1" in shown.stdout
    assert reward("brevity@2") == trainer_pb2.RewardSpec(name="brevity@2")


def test_a_reward_judges_questions_in_an_evaluation(platform: Judges, tmp_path: Path) -> None:
    asked = {"Who wrote Faust?": "Goethe", "What is H2O?": "water", "Where is Rome?": "in Italy"}
    rows = [
        {"id": f"q{place}", "prompt": one, "references": [right]} for place, (one, right) in enumerate(asked.items())
    ]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    added = platform.ratchet("data", "add", str(tmp_path / "test.jsonl"), "--name", "asked")
    assert added.returncode == 0, added.stderr
    assert platform.ratchet("new", "reward", "facts", "--task", "qa", "--folder", str(tmp_path)).returncode == 0
    assert platform.ratchet("reward", "add", str(tmp_path / "facts.py")).stdout.startswith("facts@1  ")

    answers = ("Goethe", "It is water, I think", "No idea")
    samples = [{"task_id": f"q{place}", "completion": text} for place, text in enumerate(answers)]
    (tmp_path / "samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in samples))
    judged = ("evaluate", "--samples", str(tmp_path / "samples.jsonl"), "--benchmark", "asked/test", "--json")
    bare = platform.ratchet(*judged)
    assert bare.returncode != 0
    assert "only a reward of your own can judge it" in bare.stdout + bare.stderr

    found = {}
    for judge in ("facts", "facts@1=0.3"):
        done = platform.ratchet(*judged, "--judge", judge)
        assert done.returncode == 0, done.stdout + done.stderr
        evaluation = json.loads(done.stdout)
        assert evaluation["spec"]["judge"]["reward"] == "facts@1"
        estimate = evaluation["pass_at_k"][0]["estimate"]
        assert estimate["low"] < estimate["value"] < estimate["high"]
        with platform.client() as client:
            found[judge] = [one.verdict for one in client.evaluations.samples(evaluation["id"])]
    passed, failed = verdict_pb2.VERDICT_PASSED, verdict_pb2.VERDICT_FAILED
    assert found == {"facts": [passed, failed, failed], "facts@1=0.3": [passed, passed, failed]}
    unknown = platform.ratchet(*judged, "--judge", "fatcs")
    assert "there is no reward 'fatcs'" in unknown.stdout + unknown.stderr


def test_a_key_for_programs_runs_and_grades_over_rest(platform: Judges) -> None:
    with platform.client() as admin:
        secret = admin.keys.create("ci", [access_pb2.SCOPE_PROGRAMS]).secret
    with Client(platform.url, secret) as client:
        ran = client.programs.execute(program_pb2.Program(source="print(int(input()) + 1)", stdin="41"))
        assert (ran.verdict, ran.stdout) == (verdict_pb2.VERDICT_PASSED, "42\n")
        test = problem_pb2.Test(call=problem_pb2.CallTest(args="[1]", expected="2"))
        problem = problem_pb2.Problem(id="p", prompt="Add one.", entry_point="f", tests=[test])
        graded = client.programs.grade("```python\ndef f(x):\n    return x + 2\n```", problem)
        assert (graded.verdict, graded.results[0].got) == (verdict_pb2.VERDICT_FAILED, "3")
        assert client.programs.capabilities().runtimes
        with pytest.raises(ApiError, match="scope"):
            next(iter(client.runs.list()))
