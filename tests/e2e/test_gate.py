"""A gate over a suite, on real files: who gained on one set and lost on another does not pass."""

from collections.abc import Sequence
from pathlib import Path

import pytest

import ratchet_benchmarks
from ratchet_benchmarks import fetching
from ratchet_client import Client
from ratchet_problems import Problem, jsonl

from . import table_model
from .conftest import Platform

MBPP = Path(__file__).parents[3] / "shared" / "data" / "mbpp" / "mbpp.jsonl"
TARGET, COUNT = "composed/test", 40
WRONG = "```python\ndef nothing():\n    return None\n```"


@pytest.fixture
def mbpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: Platform) -> str:
    """A file of MBPP's first problems, where the platform reads files of problems."""
    if not MBPP.is_file():
        pytest.skip("MBPP is not here: put mbpp.jsonl into ../shared/data/mbpp")
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    fetching.take(ratchet_benchmarks.get("mbpp"), MBPP)
    file = platform.home.path / "problems" / "mbpp.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    jsonl.write(ratchet_benchmarks.load("mbpp", COUNT).problems, file)
    return str(file)


def answers(name: str, problems: Sequence[Problem], solved: int) -> dict[str, str]:
    """To each problem as it is put, its reference; from the `solved`-th on something that solves nothing."""
    prompts = [ratchet_benchmarks.put(name, problem, "chat").messages[-1].content for problem in problems]
    rights = [f"```python\n{problem.references[0]}\n```" for problem in problems]
    return dict(zip(prompts, [*rights[:solved], *[WRONG] * (len(rights) - solved)], strict=True))


def test_what_gained_on_one_set_and_lost_on_another_is_refused(platform: Platform, client: Client, mbpp: str) -> None:
    sets = {name: ratchet_benchmarks.load(name, COUNT).problems for name in (TARGET, mbpp)}
    # The champion solves half of the target and all of MBPP; the candidates all of the target, and less or all of MBPP.
    for on_target, on_mbpp in ((20, 40), (40, 28), (40, 40)):
        known = answers(TARGET, sets[TARGET], on_target) | answers(mbpp, sets[mbpp], on_mbpp)
        folder = table_model.write(platform.home.path / "models" / f"table-{on_target}-{on_mbpp}", known)
        client.models.create_version("table", str(folder))
    for number in (1, 2, 3):
        version = client.models.wait_version("table", number)
        assert version.policy_id, version.failure
    client.models.set_alias("table", "champion", 1)

    def gate(number: int, *guards: str) -> tuple[int, str]:
        settings = ("--limit", str(COUNT), "--samples", "1", "--temperature", "0", "--max-tokens", "8")
        result = platform.ratchet("gate", "--model", f"table@{number}", "--benchmark", TARGET, *guards, *settings)
        return result.returncode, result.stdout + result.stderr

    code, said = gate(2, "--guard", f"{mbpp}:0.1")
    assert code == 1, said
    assert "not passed" in said
    assert f"on {mbpp} it is -0.300" in said
    assert "more than the 0.100 allowed is lost" in said

    code, said = gate(2)
    assert code == 0, f"without the guard the gain alone decides: {said}"
    code, said = gate(3, "--guard", f"{mbpp}:0.2", "--max-unsolved", "0")
    assert code == 0, said

    newest, *_ = client.models.gates("table")
    assert (newest.tries, newest.guards[0].passed) == (3, True)
    assert newest.comparison.difference.value == 0.5
    assert newest.comparison.confidence > 0.99
