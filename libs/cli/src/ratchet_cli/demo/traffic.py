"""Users of the model while it is released: threads that ask for solutions, and have each answer scored by its tests."""

import random
import threading
from collections.abc import Sequence
from typing import Self

from ratchet_cli.terminal.output import stderr
from ratchet_client import ApiError, Client, Unreachable
from ratchet_environments import Task
from ratchet_problems import Problem

THREADS = 32  # fewer leave the engine waiting: 8 are answered at 8 a second, 32 at 18


class Traffic:
    """It comes inside a `with` block, any number of times. `problem_set`: the name of `problems`, for their scores."""

    def __init__(
        self, client: Client, model: str, problem_set: str, problems: Sequence[Problem], max_tokens: int, seed: int
    ) -> None:
        self._client = client
        self._model = model
        self._problem_set = problem_set
        self._problems = problems
        self._max_tokens = max_tokens
        self._seed = seed
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.answered = 0

    def __enter__(self) -> Self:
        self._stop.clear()
        self._threads.clear()
        for number in range(THREADS):
            thread = threading.Thread(target=self._ask, args=(number,), daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *reason: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=60)

    def _ask(self, number: int) -> None:
        chance = random.Random(f"{self._seed}-{number}")
        while not self._stop.is_set():
            problem = chance.choice(self._problems)
            messages = Task.of(problem).conversation
            try:
                answer = self._client.chat(self._model, messages, max_tokens=self._max_tokens)
                self._client.feedback(answer.id, problem_set=self._problem_set, problem_id=problem.id)
            except (ApiError, Unreachable) as error:
                # A user would try again. Whether it counts against the candidate, the release decides.
                stderr.print(f"request failed: {error}", style="dim", markup=False)
                self._stop.wait(1.0)
                continue
            with self._lock:
                self.answered += 1
