"""`ratchet episode`: a program that knows nothing of Ratchet works on a task with a model of the platform."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ratchet_episodes import record
from ratchet_kit.names import VersionRef

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

EXAMPLES = Path(__file__).parents[2] / "examples"
TASK = str(EXAMPLES / "tasks/csv-to-json")
AGENT = ["--files", str(EXAMPLES / "harness"), "--", "python", "/tmp/harness/agent.py"]


ONE_OF_FOUR = """
import json, os, subprocess, urllib.request

body = {"model": "any", "messages": [{"role": "user", "content": "Say a word."}], "max_tokens": 8}
headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
if "people" in open("/tmp/instruction.md").read():
    subprocess.run(["bash", "/tmp/harness/csv.sh"], check=True)
"""


def test_an_agent_works_on_a_task_and_each_token_is_on_record(platform: Platform, tmp_path: Path) -> None:
    output = tmp_path / "episode.json"
    done = platform.ratchet("episode", TASK, "--model", "starter@1", "--json", "--output", str(output), *AGENT)
    if "task folders need a node at L2" in done.stderr:
        pytest.skip("this machine has no namespaces")
    assert done.returncode == 1  # the starter writes functions, and no commands
    assert "The task is not solved: the tests" in done.stderr or "reward 0" in done.stderr, done.stderr
    found = json.loads(done.stdout)
    assert (found["reward"], found["fault"]) == (0.0, ""), found
    assert all("tokens" in failure for failure in found["failures"]), found  # the starter holds few
    assert "$ " in found["stdout"]
    kept = record.from_json(json.loads(output.read_text()))
    calls = kept.session.calls
    assert len(calls) == found["calls"] >= 1
    assert all(len(call.token_ids) == len(call.log_probs) > 0 for call in calls)
    assert {call.policy_id for call in calls} == {found["policy_id"]}
    assert sum(len(call.token_ids) for call in calls) == found["sampled_tokens"]
    for call in calls:
        if call.origin.parent is not None:
            begun = calls[call.origin.parent].ids
            assert call.prompt_ids[: len(begun)] == begun
    assert kept.verdict
    assert (kept.verdict.reward, kept.ended.how) == (0.0, found["ended"])


def test_a_task_that_is_solved_succeeds_and_the_version_stays_for_the_next(platform: Platform) -> None:
    solved = (EXAMPLES / "tasks/csv-to-json/solution/solve.sh").read_text()
    done = platform.ratchet("episode", TASK, "--model", "starter", "--", "bash", "-c", solved)
    assert done.returncode == 0, done.stderr
    assert "reward" in done.stdout
    nodes = platform.ratchet("nodes", "list")
    assert str(VersionRef("starter", 1)) in nodes.stdout, nodes.stdout


def test_a_harness_is_measured_on_a_data_set_of_task_folders(platform: Platform, tmp_path: Path) -> None:
    added = platform.ratchet("data", "add", "--name", "agents", str(EXAMPLES / "tasks"))
    assert added.returncode == 0, added.stderr
    files = tmp_path / "files"
    files.mkdir()
    (files / "agent.py").write_text(ONE_OF_FOUR)
    shutil.copy(EXAMPLES / "tasks/csv-to-json/solution/solve.sh", files / "csv.sh")
    command = ["--files", str(files), "--", "python", "/tmp/harness/agent.py"]
    asked = ["evaluate", "--model", "starter", "--benchmark", "agents", "--samples", "2", "--max-tokens", "8", "--json"]
    done = platform.ratchet(*asked, *command)
    if "task folders need a node at L2" in done.stderr:
        pytest.skip("this machine has no namespaces")
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["verdicts"] == {"PASSED": "2", "FAILED": "6"}
    assert made["pass_at_k"][0]["estimate"]["value"] == 0.25
    shown = platform.ratchet("evaluations", "show", made["id"]).stdout
    assert "harness: python /tmp/harness/agent.py" in shown
    sample = platform.ratchet("samples", "show", made["id"], "ratchet/csv-to-json:0")
    assert (sample.returncode, "Say a word." in sample.stdout) == (0, True), sample.stderr
    check_traces(platform, made, tmp_path / "log.json")
    again = json.loads(platform.ratchet(*asked, *command).stdout)
    compared = platform.ratchet("evaluations", "compare", made["id"], again["id"], "--json")
    assert compared.returncode == 0, compared.stderr
    other = json.loads(platform.ratchet(*asked, "--", "true").stdout)
    refused = platform.ratchet("evaluations", "compare", made["id"], other["id"])
    assert (refused.returncode, "differ in their harness: python" in refused.stderr) == (3, True), refused.stderr


GUESSES = """
import json, os, subprocess, urllib.request

def ask(*messages):
    body = {"model": "any", "messages": messages, "max_tokens": 16}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]

task = {"role": "user", "content": "Write f."}
said = ask(task)
ask(task, said, {"role": "user", "content": "Again."})
ask(task, said, {"role": "user", "content": "Another."})
if len(said["content"]) % 2:
    subprocess.run(["bash", "/tmp/harness/csv.sh"], check=True)
"""


def test_a_run_learns_from_episodes_of_a_harness(platform: Platform, tmp_path: Path) -> None:
    """Each episode branches: its two second questions go on from the first answer."""
    added = platform.ratchet("data", "add", "--name", "guesses", TASK)
    assert added.returncode == 0, added.stderr
    files = tmp_path / "files"
    files.mkdir()
    (files / "agent.py").write_text(GUESSES)
    shutil.copy(EXAMPLES / "tasks/csv-to-json/solution/solve.sh", files / "csv.sh")
    sized = ["--set", "batch_size=1", "--set", "group_size=4", "--steps", "2"]
    harness = ["--files", str(files), "--", "python", "/tmp/harness/agent.py"]
    done = platform.ratchet("train", "--model", "starter", "--problems", "guesses", *sized, "--json", *harness)
    if "task folders need a node at L2" in done.stderr:
        pytest.skip("this machine has no namespaces")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["state"], int(run.get("platform_faults", 0))) == ("STATE_SUCCEEDED", 0), run
    assert run["spec"]["problems"]["name"] == "guesses@1/train"
    steps = [platform.ratchet("samples", "list", run["id"], "--step", step, "--json") for step in "12"]
    found = [one for samples in steps for one in json.loads(samples.stdout)]
    assert len(found) == 8
    assert {one["verdict"] for one in found} <= {"VERDICT_PASSED", "VERDICT_FAILED"}
    assert {one["turns"] for one in found} == {3}
    assert all("the program rewrote what was said" in one["completion"] for one in found)
    assert len({one["policy_id"] for one in found}) == 2
    traced = platform.ratchet("trace", run["id"], found[0]["id"])
    assert traced.returncode == 0, traced.stderr
    for said in ("Write f.", "branch: rewritten", f"reward {found[0].get('reward', 0):.4g} (tests_passed"):
        assert said in traced.stdout, traced.stdout
    whole = platform.ratchet("trace", run["id"], found[0]["id"], "--tokens", "--json")
    kept = record.from_json(json.loads(whole.stdout))
    assert {call.policy_id for call in kept.session.calls} == {found[0]["policy_id"]}
    assert len(list(kept.session.paths())) == 2
    refused = platform.ratchet("train", "--model", "starter", "--problems", "sums.jsonl", "--", "true")
    assert (refused.returncode, "is no data set of task folders" in refused.stderr) == (3, True), refused.stderr


OUTLIVES = """
import json, os, time, urllib.request

def ask(*texts, **more):
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    body = {"model": "any", "messages": messages, "max_tokens": 8, **more}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    answer = json.load(urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)))
    return answer["choices"][0]["message"]["content"], answer["system_fingerprint"]

first, began = ask("Write f.")
if "long" in open("/tmp/instruction.md").read():
    form = {"type": "json_schema", "json_schema": {"name": "any", "schema": {"type": "boolean"}}}
    while ask("Write f.", response_format=form)[1] == began:
        time.sleep(0.2)
ask("Write f.", first, "Again.")
"""


def test_an_episode_that_outlives_an_update_holds_no_step_up(platform: Platform, tmp_path: Path) -> None:
    """The long ones end only once the weights were replaced: by steps that learned from others meanwhile. Of three in
    a row, which are under way, one is short."""
    tasks = tmp_path / "tasks"
    for name in ("long", "short", "brief"):
        folder = Path(shutil.copytree(TASK, tasks / name))
        (folder / "instruction.md").write_text(f"A {name} one.")
        told = folder / "task.toml"
        told.write_text(told.read_text().replace("csv-to-json", name).replace("= 120.0", "= 600.0"))
    assert platform.ratchet("data", "add", "--name", "lengths", str(tasks)).returncode == 0
    files = tmp_path / "files"
    files.mkdir()
    (files / "agent.py").write_text(OUTLIVES)
    sized = ["--set", "batch_size=1", "--set", "group_size=2", "--set", "max_staleness=3", "--steps", "5"]
    harness = ["--files", str(files), "--", "python", "/tmp/harness/agent.py"]
    done = platform.ratchet("train", "--model", "starter", "--problems", "lengths", *sized, "--json", *harness)
    if "task folders need a node at L2" in done.stderr:
        pytest.skip("this machine has no namespaces")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["state"], int(run.get("platform_faults", 0))) == ("STATE_SUCCEEDED", 0), run
    steps = [platform.ratchet("samples", "list", run["id"], "--step", step, "--json") for step in "12345"]
    found = [one for samples in steps for one in json.loads(samples.stdout)]
    assert len(found) == 10
    versions = [[span.get("step", 0) for span in one["spans"]] for one in found]
    assert all(steps == sorted(set(steps)) for steps in versions)
    ages = {one["step"] - 1 - steps[0] for one, steps in zip(found, versions, strict=True)}
    assert {one.get("staleness", 0) for one in found} == ages
    assert max(ages) <= 3
    outlived = {one["problem_id"] for one, steps in zip(found, versions, strict=True) if len(steps) > 1}
    assert any(problem.endswith("/long") for problem in outlived), (outlived, versions)


def check_traces(platform: Platform, made: dict[str, Any], log: Path) -> None:
    """Each sample is an episode, whose record the gateway gives, over REST and as people read it."""
    mean = made["episodes"]
    assert (mean["turns"], mean["tool_errors"]) == (1.0, 0.0)
    assert mean["tokens"] > 0
    samples = json.loads(platform.ratchet("samples", "list", made["id"], "--json").stdout)
    assert {(one["turns"], one["recorded"]) for one in samples} == {(1, True)}
    failed = json.loads(platform.ratchet("samples", "list", made["id"], "--failure", "wrong", "--json").stdout)
    assert len(failed) == 6
    solved = platform.ratchet("trace", made["id"], "ratchet/csv-to-json")
    assert solved.returncode == 0, solved.stderr
    for said in ("Say a word.", "== added: app/people.json", "== the judge: reward 1", "PASSED: reward 1"):
        assert said in solved.stdout, solved.stdout
    whole = platform.ratchet("trace", made["id"], "ratchet/csv-to-json", "1", "--tokens", "--json")
    kept = record.from_json(json.loads(whole.stdout))
    assert kept.verdict
    assert (kept.verdict.reward, kept.ended.how) == (1.0, "status 0")
    (call,) = kept.session.calls
    (path,) = kept.session.paths()
    assert path.ids == call.prompt_ids + call.token_ids
    assert len(call.token_ids) == len(call.log_probs) > 0
    assert call.policy_id == made["policy_id"]
    beside = platform.ratchet("trace", made["id"], "ratchet/csv-to-json", "0", "--beside", "1")
    assert beside.returncode == 0, beside.stderr
    assert platform.ratchet("trace", made["id"], "ratchet/csv-to-json", "7").returncode == 3
    assert platform.ratchet("trace", made["id"], "--inspect", str(log)).returncode == 0
    exported = json.loads(log.read_text())
    assert len(exported["samples"]) == 8
    assert exported["results"]["scores"][0]["metrics"]["mean"]["value"] == 0.25


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([TASK, "--model", "nobody", "--", "true"], "nobody"),
        ([TASK, "--model", "starter@77", "--", "true"], "77"),
        ([str(EXAMPLES), "--model", "starter", "--", "true"], "task.toml"),
        ([TASK, "--model", "starter", "--files", "/nowhere", "--", "true"], "nowhere"),
        ([TASK, "--model", "starter", "--", "no-such-program"], "no-such-program can't be started"),
    ],
)
def test_mistakes_are_told(platform: Platform, arguments: list[str], said: str) -> None:
    done = platform.ratchet("episode", *arguments)
    assert done.returncode != 0
    assert said in done.stderr + done.stdout, done.stderr
    assert "Traceback" not in done.stderr
