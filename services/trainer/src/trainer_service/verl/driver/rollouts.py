"""Completions and their verdicts for verl: what verl calls an agent loop manager.

verl hands over a batch of prompts and goes on; each prompt then becomes a group of samples in the TransferQueue.
"""

import queue
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from tensordict import TensorDict
from verl.utils import tensordict_utils as tu

from ratchet_problems import Problem
from trainer_service.job.policy.seeds import group_seed
from trainer_service.job.policy.weight_versions import WeightVersions
from trainer_service.job.run.background import Background
from trainer_service.job.run.config import JobConfig
from trainer_service.job.samples.curriculum import Evidence
from trainer_service.job.samples.groups import Draw, Group, Groups
from trainer_service.job.samples.step_samples import Drawn, Prompted, StepSamples
from trainer_service.verl.driver import transfer

# A put takes the TransferQueue some 10 ms of a core, be it of one group or of ten.
GATHER_S = 0.25


@dataclass(frozen=True, slots=True)
class _Ended:
    one: Prompted
    group: Group
    at: float
    """Seconds, of the clock of `Prompted.began`."""


class Rollouts:
    """Makes the groups of training, and owns what each step learns from until it is taken. A prompt is answered by the
    weights that the engine has. A group that compares completions, and of which fewer than two are left,
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
        self._drawn: dict[int, Drawn] = {}
        self._running: dict[str, tuple[Prompted, Future[None]]] = {}
        """Prompts that no step has learned from yet, by their uids."""
        self._groups_of: dict[str, _Ended] = {}
        """The groups of these that are in the TransferQueue."""
        self._made: dict[int, StepSamples] = {}
        self._waited = 0.0
        """Seconds that the trainer stood still since a step was last taken."""
        self._failure: Exception | None = None
        self._ended = queue.SimpleQueue[_Ended | None]()
        """None: of one that failed."""
        self._under_way: Counter[int] = Counter()
        """Groups of each step that are not out of `_ended` yet."""

    def generate_sequences(self, prompts: TensorDict) -> None:
        """verl's entry: starts one group per row, by its "uid" and the "index" of its problem, and returns at once."""
        step = int(tu.get(prompts, "global_steps"))
        drawn = self._drawn.setdefault(step, Drawn())
        for uid, index in zip(map(str, prompts["uid"]), map(int, prompts["index"]), strict=True):
            split = self._groups.split(self._problems[index])
            problem = split.rewarded
            place, times = drawn.place(problem.id)
            seed = group_seed(self._spec.seed, "train", step, problem.id, times)
            size, greedy = self._spec.hyperparameters.group_size or 1, self._algorithm.has_greedy
            draw = Draw(problem, size, step, seed, greedy, split.unrewarded)
            one = Prompted(uid, index, place, draw, self._sent.version.step)
            self._under_way[step] += 1
            self._running[uid] = one, self._background.start(self._make(one))

    def publish(self, seconds: float) -> None:
        """Puts groups that have ended into the TransferQueue: those of `GATHER_S` at once, or fewer where they are the
        last of their step. Returns then, or after so long. Raises the first failure."""
        groups, end = list[_Ended](), time.monotonic() + seconds
        while not groups or self._under_way[groups[-1].one.draw.step]:
            try:
                ended = self._ended.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                break
            if ended is None:
                break
            self._under_way[ended.one.draw.step] -= 1
            if not groups:
                end = min(end, time.monotonic() + GATHER_S)
            groups.append(ended)
        if self._failure is not None:
            raise self._failure
        if groups:
            self._groups_of |= {ended.one.uid: ended for ended in groups}
            there = [(ended.one, ended.group) for ended in groups]
            transfer.put(there, self._algorithm.replaces_groups)

    def wait_made(self) -> None:
        """Until all groups are there that were asked for. Raises the first failure."""
        began = time.monotonic()
        for _, group in self._running.values():
            group.exception()  # it keeps none: it waits
        self._waited += time.monotonic() - began
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Nobody waits for groups any more."""
        for _, group in self._running.values():
            group.cancel()

    def choose(self, step: int, uids: Iterable[str]) -> None:
        """The step learns from these prompts, or has replaced them. Those that another step has are left to it."""
        made = self._made.get(step)
        if made is None:
            made = self._made[step] = StepSamples(step, kept_groups=self._spec.kept_groups or 0, waited=self._waited)
            self._waited = 0.0
        for uid in uids:
            if (ended := self._groups_of.pop(uid, None)) is not None:
                made.add(ended.one, ended.group, ended.at)
                del self._running[uid]

    def is_awaited(self, step: int, max_staleness: int) -> bool:
        """True while a prompt is being answered that would be too old for the step after this one."""
        oldest = step - max_staleness
        return any(one.version < oldest and uid not in self._groups_of for uid, (one, _) in self._running.items())

    def evidence(self, step: int) -> list[Evidence]:
        """Evidence of the step's groups, for a curriculum. Before its groups are chosen they are all that were drawn
        for it, and have ended."""
        if step not in self._made:
            while self._under_way[step]:
                self.publish(0.0)
            self.choose(step, [uid for uid, (one, _) in self._running.items() if one.draw.step == step])
        return self._made[step].evidence

    def cut_off(self, uids: Sequence[str]) -> int:
        """Number of episodes of these prompts whose time was over."""
        return sum(made.cut_off.get(uid, 0) for made in self._made.values() for uid in uids)

    def take(self, step: int) -> StepSamples:
        """All that the step has learned from. It is over."""
        self._drawn.pop(step, None)
        return self._made.pop(step)

    def order_of(self, uid: str) -> tuple[int, int]:
        """In which verl drew prompts."""
        if uid in self._running:
            return self._running[uid][0].order
        return next(made.orders[uid] for made in self._made.values() if uid in made.orders)

    def greedy_of(self, uid: str) -> float:
        """The reward of the greedy completion of a prompt; 0 for what is no prompt: verl's padding."""
        return next((made.greedy[uid] for made in self._made.values() if uid in made.greedy), 0.0)

    def credit_of(self, key: str) -> Sequence[tuple[range, float]]:
        """The places of each answer of a sample, and its advantage, where credit is given by turn; none for what is no
        sample: verl's padding."""
        return next((made.credit[key] for made in self._made.values() if key in made.credit), ())

    def check_faults(self, step: int, lost: int, expected: int) -> None:
        self._groups.check_faults(step, lost, expected)

    async def _make(self, one: Prompted) -> None:
        ended = None
        try:
            group = await self._groups.make(one.draw)
            if len(group.samples) < (2 if self._algorithm.is_grouped else 1):
                group = replace(group, samples=[])
            ended = _Ended(one, group, time.monotonic())
        except Exception as error:  # noqa: BLE001 - the main thread waits for this group, and raises what failed
            self._failure = self._failure or error
        finally:
            self._ended.put(ended)
