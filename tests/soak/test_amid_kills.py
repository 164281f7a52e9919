"""Mixed load while each service is killed in turn, an engine hangs, and releases are under way: one that is worse, one
that a person takes back, one that is promoted. Part of `make soak`: AMID_MINUTES, 30 by default."""

import asyncio
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

import psutil
import pytest

import ratchet_problems
from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.gateway.v1 import release_pb2
from ratchet_client import ApiError, Client, Unreachable
from ratchet_kit.ids import new_id
from ratchet_local import starter
from tests.chaos.judges import User
from tests.chaos.killing import find

from .callers import LONG, Asked, Seen, load, say
from .doubled import FOR_SERVING, READY, SERVING, Doubled, doubled
from .tables import BETTER, CHAMPION, MODEL, PROBLEM_SET, PROBLEMS, WORSE

MINUTES = float(os.environ.get("AMID_MINUTES", "30"))
UNIT_S = 60 * MINUTES / 30
"""Of the releases' stages: a minute of the half hour."""
CLIENTS, PAUSE_S = 10, float(os.environ.get("AMID_PAUSE_S", "0.5"))
ENOUGH = 0.999
SEEN_AFTER_S = 2.0
"""A version that was rolled back answers no request that comes later."""
SETTLE_S, QUIET_S = 300.0, 3.0

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(int(60 * MINUTES) + 1800)]


# Faults


Fault = Callable[[Doubled], psutil.Process]
"""Gives what it happened to."""


def kill(service: str) -> Fault:
    def fault(platform: Doubled) -> psutil.Process:
        victim = psutil.Process(platform.pid(service))
        victim.kill()
        return victim

    return fault


def kill_engine(platform: Doubled) -> psutil.Process:
    victim = _engine(platform)
    victim.kill()
    return victim


def hang_engine(platform: Doubled) -> psutil.Process:
    """It stands still for good: whoever notices ends it."""
    victim = _engine(platform)
    victim.suspend()
    return victim


def _engine(platform: Doubled) -> psutil.Process:
    engines = find(platform, "VLLM::EngineCore")
    assert engines, "no engine"
    return random.choice(engines)


KILLED = ("gateway", "registry", "eval", "sandbox", "trainer", "rollout", "redis", "gateway-2", "rollout-2")
FAULTS: Mapping[str, Fault] = {
    **{f"{service} killed": kill(service) for service in KILLED},
    "an engine hangs": hang_engine,
    "an engine killed": kill_engine,
}


async def faults(platform: Doubled, happened: list[str], end: float) -> None:
    """One after the other, each when what the one before did has passed."""
    for name, fault in itertools.cycle(FAULTS.items()):
        if time.monotonic() > end:
            return
        victim = await asyncio.to_thread(fault, platform)
        at = time.monotonic()
        while is_alive(victim) or not await asyncio.to_thread(is_settled, platform):
            assert time.monotonic() < at + SETTLE_S, f"{name}: not well after {SETTLE_S:.0f} s"
            await asyncio.sleep(1)
        happened.append(name)
        say(f"{name}, well again after {time.monotonic() - at:.0f} s")
        await asyncio.sleep(QUIET_S)


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def is_settled(platform: Doubled) -> bool:
    """Each process answers, and each node has ready engines of the same policies for serving."""
    if not platform.is_well():
        return False
    with platform.client() as client, suppress(ApiError, Unreachable):
        nodes = list(client.nodes.list())
        engines = [[engine for engine in node.engines if engine.purpose == FOR_SERVING] for node in nodes]
        are_ready = all(engine.state == READY for some in engines for engine in some)
        policies = {frozenset(engine.policy for engine in some) for some in engines}
        return are_ready and [node.state for node in nodes] == [SERVING] * 2 and len(policies) == 1
    return False


# Releases


@dataclass(slots=True)
class Released:
    """What became of the releases. Mutable: they come one after the other."""

    releases: list[release_pb2.Release] = field(default_factory=list)

    def rolled_back(self) -> Iterator[tuple[str, float, float]]:
        """A version, from when on it was to answer nothing, and until when."""
        for release in self.releases:
            if release.state != release_pb2.Release.STATE_ROLLED_BACK:
                continue
            version, back = f"{MODEL}@{release.spec.candidate.number}", release.events[-1].create_time
            again = [
                other.create_time.ToNanoseconds() / 1e9
                for other in self.releases
                if other.spec.candidate == release.spec.candidate and other.create_time.seconds >= back.seconds
            ]
            yield version, back.ToNanoseconds() / 1e9, min(again, default=float("inf"))


def spec(number: int, gate_id: str, watch_s: float) -> release_pb2.ReleaseSpec:
    """To prove that a stage is no worse takes more users than there are here: what is not shown to be worse goes on."""
    made = release_pb2.ReleaseSpec(
        candidate=model_pb2.VersionRef(model=MODEL, number=number),
        gate_id=gate_id,
        unproven=release_pb2.ReleaseSpec.UNPROVEN_PROCEED,
    )
    for percent in (10, 50, 100):
        stage = made.stages.add(percent=percent, min_samples=20, min_scored=10)
        stage.min_duration.FromTimedelta(timedelta(seconds=2 * UNIT_S))
    made.watch.FromTimedelta(timedelta(seconds=watch_s))
    return made


def release(user: User, released: Released, gates: dict[int, str]) -> None:
    """In turn: a worse version, a good one that a person takes back at half of the traffic, and the good one again."""

    def begin(number: int) -> str:
        request_id = new_id("request")
        return user.insist(
            lambda client: client.releases.create(spec(number, gates[number], 2 * UNIT_S), request_id)
        ).id

    def keep(id: str) -> None:
        def is_over(client: Client) -> bool:
            return client.releases.get(id).end_time.seconds > 0

        user.wait_until(is_over)
        found = user.insist(lambda client: client.releases.get(id))
        released.releases.append(found)
        say(f"release of {MODEL}@{found.spec.candidate.number}: {[(e.percent, e.reason) for e in found.events]}")

    keep(begin(WORSE.version.number))
    taken_back = begin(BETTER.version.number)
    user.wait_until(lambda client: any(event.percent >= 50 for event in client.releases.get(taken_back).events))
    time.sleep(UNIT_S)
    user.insist(lambda client: client.releases.rollback(taken_back, "the test takes it back"))
    keep(taken_back)
    keep(begin(BETTER.version.number))


# Evaluations


def evaluate(user: User, done: list[str], end: float) -> None:
    """Given samples, of which every second one is right, again and again."""
    problem = ratchet_problems.load("basics")[0]
    asked = eval_pb2.EvaluationSpec(
        problems=problem_pb2.ProblemSetRef(name="basics", limit=1), samples_per_problem=4, imported_samples=4, k=[1]
    )
    given = [
        eval_pb2.ImportedSample(problem_id=problem.id, index=index, solution=text)
        for index, text in enumerate([problem.references[0], "def broken("] * 2)
    ]
    while time.monotonic() < end:
        request_id = new_id("request")
        id = user.insist(lambda client, request_id=request_id: client.evaluations.create(asked, request_id)).id  # type: ignore[misc]
        user.insist(lambda client, id=id: client.evaluations.add_samples(id, given))  # type: ignore[misc]
        user.wait_until(lambda client, id=id: client.evaluations.get(id).end_time.seconds > 0)  # type: ignore[misc]
        found = user.insist(lambda client, id=id: client.evaluations.get(id))  # type: ignore[misc]
        assert found.state == eval_pb2.Evaluation.STATE_SUCCEEDED, found.failure
        assert found.pass_at_k[0].estimate.value == 0.5
        done.append(id)
        time.sleep(2)


# The test


@pytest.fixture(scope="module")
def platform() -> Iterator[Doubled]:
    with doubled() as running:
        yield running


@contextmanager
def calling(platform: Doubled) -> Iterator[User]:
    with platform.client() as client:
        yield User([client])


def prepare(platform: Doubled) -> dict[int, str]:
    """The versions, and the gates that two of them pass, by number."""
    with platform.client() as client:
        for table in (CHAMPION, WORSE, BETTER):
            client.models.create_version(MODEL, str(table.write(platform.home.path / "models")))
        for table in (CHAMPION, WORSE, BETTER):
            version = client.models.wait_version(MODEL, table.version.number)
            assert version.policy_id, version.failure
        client.models.set_alias(MODEL, "champion", CHAMPION.version.number)
        starter.ensure_registered(client)
        for table in (WORSE, BETTER):
            settings = ("--limit", str(PROBLEMS), "--samples", "1", "--temperature", "0", "--max-tokens", "8")
            said = platform.ratchet("gate", "--model", str(table.version), "--benchmark", PROBLEM_SET, *settings)
            assert said.returncode == 0, said.stdout + said.stderr
        return {gate.candidate.number: gate.id for gate in client.models.gates(MODEL)}


async def test_requests_are_answered_while_each_part_is_killed(platform: Doubled) -> None:
    gates = await asyncio.to_thread(prepare, platform)
    with ExitStack() as stack:
        client = stack.enter_context(platform.client())
        keys = [client.keys.create(f"application {number}").secret for number in range(3)]
        client.chat(LONG, "hello", max_tokens=2)
        client.chat(MODEL, CHAMPION.questions[0], max_tokens=8)
        say("ready")
        user, judge = (stack.enter_context(calling(platform)) for _ in range(2))
        released, happened, evaluations = Released(), list[str](), list[str]()
        end = time.monotonic() + 60 * MINUTES
        async with load(platform.url, keys, (CHAMPION, WORSE, BETTER), CLIENTS, PAUSE_S) as seen:
            await asyncio.sleep(5)
            ended = await asyncio.gather(
                faults(platform, happened, end),
                asyncio.to_thread(release, user, released, gates),
                asyncio.to_thread(evaluate, judge, evaluations, end),
                return_exceptions=True,
            )
            await asyncio.sleep(5)
        counted = user.insist(lambda client: client.count_feedback(MODEL))
        say(f"{MINUTES:.0f} minutes, {len(happened)} faults, {len(evaluations)} evaluations. {seen.report()}")
        assert [error for error in ended if error] == []
        check(seen, released, counted)


def check(seen: Seen, released: Released, counted: int) -> None:
    late = [one for version, *times in released.rolled_back() for one in answered_by(version, seen.asked, *times)]
    say(f"{len(late)} answers by a version that was rolled back more than {SEEN_AFTER_S:.0f} s before")
    say(f"{counted} of {len(seen.scored)} acknowledged feedbacks are there")
    states = [release_pb2.Release.State.Name(one.state).removeprefix("STATE_") for one in released.releases]
    assert states == ["ROLLED_BACK", "ROLLED_BACK", "SUCCEEDED"]
    assert late == []
    assert seen.wrong == []
    assert counted == len(seen.scored)
    assert seen.share_answered >= ENOUGH


def answered_by(version: str, asked: Sequence[Asked], back: float, again: float) -> list[Asked]:
    return [one for one in asked if one.version == version and back + SEEN_AFTER_S < one.at < again]
