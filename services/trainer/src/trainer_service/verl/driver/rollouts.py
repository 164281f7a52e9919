"""Completions and their verdicts for verl: what verl calls an agent loop manager.

verl hands over a batch of prompts and goes on; each prompt then becomes a group of samples in the TransferQueue.
"""

import queue
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_problems import Problem
from trainer_service.job.policy.seeds import group_seed
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.run.background import Background
from trainer_service.job.run.config import JobConfig
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw, Group, Groups
from trainer_service.job.samples.step_samples import Prompted, StepSamples
from trainer_service.verl.algorithms import VERL_ALGORITHMS
from trainer_service.verl.driver import transfer

# A put takes the TransferQueue some 10 ms of a core, be it of one group or of ten.
GATHER_S = 0.25


class Rollouts:
    """Makes the groups of training, and owns what is made for each step until it is taken. A prompt is answered by the
    weights that the engine has when it comes. A group that compares completions, and of which fewer than two are left,
    teaches nothing: a lone one would be its own baseline. `problems` may grow.

    A first failure that is not a platform fault ends all: it is kept, and raised to the trainer by `publish`.
    """

    def __init__(
        self, job: JobConfig, background: Background, sent: WeightVersions, groups: Groups, problems: Sequence[Problem]
    ) -> None:
        self._spec = job.spec
        self._algorithm = job.algorithm
        self._background = background
        self._sent = sent
        self._groups = groups
        self._problems = problems
        self._made: dict[int, StepSamples] = {}
        self._failure: Exception | None = None
        self._ended = queue.SimpleQueue[tuple[Prompted, Group] | None]()
        """None: of one that failed."""
        self._under_way: Counter[int] = Counter()
        """Groups of each step that are not out of `_ended` yet."""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's entry: starts one group per row, by its "uid" and the "index" of its problem, and returns at once."""
        step = int(tu.get(prompts, "global_steps"))
        made = self._made.setdefault(step, StepSamples(kept_groups=self._spec.kept_groups or 0))
        for uid, index in zip(map(str, prompts["uid"]), map(int, prompts["index"]), strict=True):
            split = self._groups.split(self._problems[index])
            problem = split.rewarded
            place, times = made.place(uid, problem.id)
            seed = group_seed(self._spec.seed, "train", step, problem.id, times)
            size, greedy = self._spec.hyperparameters.group_size or 1, self._algorithm.has_greedy
            draw = Draw(problem, size, step, seed, self._sent.policy_id, greedy, split.unrewarded)
            one = Prompted(uid, index, place, draw, self._sent.step)
            self._under_way[step] += 1
            made.running.append(self._background.start(self._make(one, made)))

    def publish(self, seconds: float) -> None:
        """Puts groups that have ended into the TransferQueue: those of `GATHER_S` at once, or fewer where they are the
        last of their step. Returns then, or after so long. Raises the first failure."""
        groups, end = list[tuple[Prompted, Group]](), time.monotonic() + seconds
        while not groups or self._under_way[groups[-1][0].draw.step]:
            try:
                ended = self._ended.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if ended is None:
                break
            self._under_way[ended[0].draw.step] -= 1
            if not groups:
                end = min(end, time.monotonic() + GATHER_S)
            groups.append(ended)
        if self._failure is not None:
            raise self._failure
        if groups:
            transfer.put(groups, VERL_ALGORITHMS[self._algorithm.name].replaces_groups)

    def wait_made(self) -> None:
        """Until all groups are there that were asked for. Raises the first failure."""
        for made in self._made.values():
            began = time.monotonic()
            for group in made.running:
                group.exception()  # it keeps none: it waits
            made.waited += time.monotonic() - began
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Nobody waits for groups any more."""
        for made in self._made.values():
            for group in made.running:
                group.cancel()

    def evidence(self, step: int) -> list[Evidence]:
        """What the groups of the step told, for a curriculum. All of them have ended."""
        return self._made[step].evidence

    def cut_off(self, uids: Sequence[str]) -> int:
        """Number of episodes of these prompts whose time was over."""
        return sum(made.cut_off.get(uid, 0) for made in self._made.values() for uid in uids)

    def take(self, step: int) -> StepSamples:
        """What was made for the step, which is over."""
        return self._made.pop(step)

    def place_of(self, uid: str) -> int:
        """Of a prompt among those of its step, in the order in which verl drew them."""
        for made in self._made.values():
            if uid in made.places:
                return made.places[uid]
        raise KeyError(uid)

    def greedy_of(self, uid: str) -> float:
        """The reward of the greedy completion of a prompt; 0 for what is no prompt: verl's padding."""
        return next((made.greedy[uid] for made in self._made.values() if uid in made.greedy), 0.0)

    def check_faults(self, step: int, lost: int, expected: int) -> None:
        self._groups.check_faults(step, lost, expected)

    async def _make(self, one: Prompted, made: StepSamples) -> None:
        ended = None
        try:
            group = await self._groups.make(one.draw)
            if len(group.samples) < (2 if self._algorithm.is_grouped else 1):
                group = replace(group, samples=[])
            made.add(one, group)
            ended = (one, group)
        except Exception as error:  # noqa: BLE001 - the main thread waits for this group, and raises what failed
            self._failure = self._failure or error
        finally:
            self._ended.put(ended)
