"""A run of `tools` on a model that calls them: what it calls happens, and is learned from.

`make e2e-full`.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ratchet_client import Client
from ratchet_episodes import record

from . import table_model
from .conftest import Platform, running

pytestmark = [pytest.mark.e2e, pytest.mark.full, pytest.mark.timeout(1200)]

TASK = Path(__file__).parents[2] / "examples/tasks/count-words"
MODEL, INSTRUCTION = "worker", "Write /app/count."
END = "<|end|>"
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}"
    "{% for c in m.get('tool_calls') or [] %}{{ c['function']['arguments'] | tojson }}{% endfor %}"
    f"{{% if m['role'] == 'assistant' %}}{END}{{% endif %}}{{% endfor %}}"
)
"""Writes all that was said; the model reads the last of it alone."""


def call(name: str, **arguments: str) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def called(kept: record.Record) -> list[str]:
    return [one.name for each in kept.session.calls for one in each.answer.tool_calls]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """With a model that solves the task, mostly: other tokens have 2 % in all."""
    with running({"RATCHET_ROLLOUT_TOOL_PARSERS": json.dumps({MODEL: "hermes"})}) as platform:
        folder = platform.home.path / "models" / MODEL
        solved = f"{(TASK / 'solution/solve.sh').read_text()}\necho worked\n"
        table_model.write(folder, {INSTRUCTION: call("bash", command=solved), "worked": call("submit")})
        (folder / "chat_template.jinja").write_text(TEMPLATE)
        with platform.client() as client:
            client.models.create_version(MODEL, str(folder))
            made = client.models.wait_version(MODEL, 1)
            assert made.policy_id, made.failure
        yield platform


def test_a_run_learns_from_what_its_model_called(platform: Platform, client: Client, tmp_path: Path) -> None:
    shutil.copytree(TASK, tmp_path / "count")
    (tmp_path / "count/instruction.md").write_text(INSTRUCTION)
    added = platform.ratchet("data", "add", "--name", "work", str(tmp_path / "count"))
    assert added.returncode == 0, added.stderr
    sized = ("--set", "batch_size=1", "--set", "group_size=8", "--set", "max_response_tokens=64", "--steps", "2")
    learned = ("--problems", "work", "--reward", "tests_fraction", "--set", "environment=tools")
    done = platform.ratchet("train", "--model", f"{MODEL}@1", *learned, *sized, "--json")
    if "task folders need a node at L2" in done.stderr:
        pytest.skip("this machine has no namespaces")
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)
    assert (run["state"], int(run.get("platform_faults", 0))) == ("STATE_SUCCEEDED", 0), run
    listed = platform.ratchet("samples", "list", run["id"], "--step", "1", "--json")
    samples = json.loads(listed.stdout)
    solved = [one for one in samples if one.get("reward") == 1]
    assert len(samples) == 8
    assert len(solved) >= 4, samples
    whole = [platform.ratchet("trace", run["id"], one["id"], "--tokens", "--json") for one in solved]
    records = {one["id"]: record.from_json(json.loads(done.stdout)) for one, done in zip(solved, whole, strict=True)}
    id, kept = next((id, one) for id, one in records.items() if called(one) == ["bash", "submit"])
    first, second = kept.session.calls
    assert second.origin.parent == 0
    assert second.prompt_ids[: len(first.ids)] == first.ids, "it went on from the tokens that were sampled"
    assert [change.path for change in kept.changes] == ["app/count"]
    shown = platform.ratchet("trace", run["id"], id).stdout
    assert "== answer 1 of" in shown
    assert "== added: app/count" in shown
    measured = platform.ratchet(
        *("evaluate", "--model", f"{MODEL}@1", "--benchmark", "work", "--environment", "tools", "--json")
    )
    assert measured.returncode == 0, measured.stderr
