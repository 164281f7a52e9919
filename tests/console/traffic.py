"""What the console is to show: a model that is known, and its users."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import ratchet_benchmarks
from ratchet_client import Client
from ratchet_problems import Problem

from ..e2e import table_model
from ..e2e.conftest import Platform

MODEL, LOUD, SET, COUNT = "table", "loud", "composed/test", 40
HOSTILE = 'No.\n<script>window.broken = 1</script><img src="x" onerror="window.broken = 2"> {{7*7}} </pre></code>'
"""What the version of LOUD says to every problem: never in a picture."""
WRONG = "```python\ndef solve(xs):\n    return list(xs)\n```"
"""What the first version of MODEL says to every other problem."""


def problems() -> Sequence[Problem]:
    return ratchet_benchmarks.load(SET, COUNT).problems


def prompt(problem: Problem) -> str:
    return str(ratchet_benchmarks.put(SET, problem, "chat").messages[-1].content)


def register(platform: Platform, client: Client) -> None:
    """Version 1 solves every other problem, version 2 all; 1 is the champion, and 2 passed a gate against it."""
    for number, solved in ((1, lambda place: place % 2), (2, lambda place: True)):
        answers = {
            prompt(problem): f"```python\n{problem.references[0]}\n```" if solved(place) else WRONG
            for place, problem in enumerate(problems())
        }
        add(platform, client, MODEL, number, answers)
    add(platform, client, LOUD, 1, {prompt(problem): HOSTILE for problem in problems()})
    client.models.set_alias(MODEL, "champion", 1, reason="the first one")
    gate = platform.ratchet(
        *("gate", "--model", f"{MODEL}@2", "--benchmark", SET, "--limit", str(COUNT)),
        *("--samples", "1", "--temperature", "0", "--max-tokens", "8"),
    )
    assert gate.returncode == 0, gate.stderr


def add(platform: Platform, client: Client, model: str, number: int, answers: Mapping[str, str]) -> None:
    folder = table_model.write(platform.home.path / "models" / f"{model}-{number}", dict(answers))
    client.models.create_version(model, str(folder))
    assert client.models.wait_version(model, number).policy_id


@contextmanager
def users(client: Client, wait_s: float = 0.02) -> Iterator[Callable[[], int]]:
    """Somebody new asks, and scores the answer, until the block ends. Gives how many were answered so far."""
    stop, answered = threading.Event(), [0]
    all_prompts = [prompt(problem) for problem in problems()]

    def ask() -> None:
        while not stop.wait(wait_s):
            number = answered[0]
            text = all_prompts[number % COUNT]
            answer = client.chat(MODEL, text, temperature=0.0, max_tokens=8, routing_key=f"user {number}")
            client.feedback(answer.id, score=float(answer.text != WRONG))
            answered[0] += 1

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        yield lambda: answered[0]
    finally:
        stop.set()
        asking.join()
