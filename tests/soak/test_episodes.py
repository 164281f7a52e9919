"""Episodes on task folders, a tenth of them hostile, while each part is killed in turn: no fault is a reward, no attack
is one, and nothing is left. Part of `make soak`: EPISODES, 10,000 by default. SOAK_LOGS: a folder for the logs.

Half are played by a harness, half by the tools with an MCP server, on a model whose every answer is known.
"""

import itertools
import json
import os
import random
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event

import psutil
import pytest
from google.protobuf.json_format import MessageToDict

from ratchet.common.v1 import environment_pb2, model_pb2, problem_pb2, verdict_pb2
from ratchet.eval.v1 import eval_pb2
from tests.chaos.judges import User
from tests.chaos.killing import find, redis_of, wait_until
from tests.e2e import table_model
from tests.e2e.conftest import Platform, running

from . import left
from .callers import say
from .test_platform import Figures, is_flat, shown

EPISODES = int(os.environ.get("EPISODES", "10000"))
ROUND = 500
"""Episodes of an evaluation, at most."""
ENOUGH = 1_000
"""Episodes from which on each fault happens, and what is looked at has settled."""
LOOKS = 30
STEP = max(20, EPISODES // 60)
"""Episodes between two faults."""
SETTLE_S, STALL_S = 300.0, 1800.0

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1800 + 4 * EPISODES)]

MODEL, SET = "worker", "soaked"
HERE = Path(__file__).parent
TASKS = HERE.parents[1] / "examples/tasks"
BASES = ("csv-to-json", "count-words", "fix-average", "revert-commit")
SUBMIT = '{"name": "submit", "arguments": {}}'
WORK = '{"name": "work", "arguments": {}}'
BASH = '{"name": "bash", "arguments": {"command": "python /tmp/harness/alone.py"}}'
ALONE = 'import deeds\ndeeds.do(open("/tmp/instruction.md").read().strip())\nprint("worked")\n'


# The tasks, and a model that works on them


@dataclass(frozen=True, slots=True)
class Kind:
    """A task folder of the set."""

    name: str
    deed: str
    base: str

    @property
    def instruction(self) -> str:
        return f"{self.deed} {self.base}"

    @property
    def is_solved(self) -> bool:
        return self.deed == "solve"


def kinds() -> Iterator[Kind]:
    """Sixteen that are solved, two that nothing is done for, and two that are attacked: by files and by a program."""
    for number in range(4):
        yield from (Kind(f"soak/solve-{base}-{number}", "solve", base) for base in BASES)
    for deed in ("idle", "attack"):
        yield from (Kind(f"soak/{deed}-{base}", deed, base) for base in BASES[:2])


KINDS = {kind.name: kind for kind in kinds()}


def write_tasks(folder: Path) -> None:
    for kind in KINDS.values():
        task = folder / kind.name.replace("/", "-")
        shutil.copytree(TASKS / kind.base, task)
        (task / "instruction.md").write_text(kind.instruction)
        text = (task / "task.toml").read_text().replace(f"ratchet/{kind.base}", kind.name)
        if kind.deed == "attack":  # some go on for as long as they may
            text = text.replace("timeout_sec = 120.0", "timeout_sec = 10.0")
        (task / "task.toml").write_text(text)


def answers() -> Mapping[str, str]:
    """It has its tool do the work, again where the tool's server has ended, and submits."""
    asked = {kind.instruction: WORK for kind in KINDS.values()}
    asked[f"attack {BASES[1]}"] = BASH
    asked["error: python, which serves the tools, has ended; the next call starts it again"] = WORK
    asked["worked"] = SUBMIT
    return {prompt: f"<tool_call>\n{call}\n</tool_call>" for prompt, call in asked.items()}


def environments() -> Iterator[environment_pb2.EnvironmentSpec]:
    files = {path.name: path.read_text() for path in (HERE / "programs").glob("*.py")}
    files |= {f"{base}.sh": (TASKS / base / "solution/solve.sh").read_text() for base in BASES} | {"alone.py": ALONE}
    for name, program in (("harness", "agent.py"), ("tools", "server.py")):
        command = ["python", f"/tmp/harness/{program}"]
        yield environment_pb2.EnvironmentSpec(name=name, command=command, files=files)


# Faults


@dataclass(slots=True)
class Done:
    """What happened. Mutable: it grows."""

    progress: dict[str, int] = field(default_factory=dict)
    """Episodes by evaluation."""
    faults: list[str] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    attacks: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    """Honest episodes whose own command ended by a kill."""
    wrong: list[str] = field(default_factory=list)
    sandboxes: set[int] = field(default_factory=set)
    over: Event = field(default_factory=Event)
    """All episodes are played."""

    @property
    def episodes(self) -> int:
        return sum(self.progress.values())


Fault = Callable[[Platform], psutil.Process]
"""Gives whom it happened to. Raises NobodyThere."""


class NobodyThere(Exception):
    """No such process lives: the episodes that have one are over, or have not begun."""


def process_of(platform: Platform, service: str) -> psutil.Process:
    state = platform.home.read_state()
    found = state.service(service) if state else None
    assert found
    assert found.pid is not None, f"{service} does not run"
    return psutil.Process(found.pid)


def kill(service: str) -> Fault:
    def fault(platform: Platform) -> psutil.Process:
        victim = process_of(platform, service)
        victim.kill()
        return victim

    return fault


def kill_engine(platform: Platform) -> psutil.Process:
    victim = random.choice(find(platform, "VLLM::EngineCore"))
    victim.kill()
    return victim


def kill_within(program: str, above: int = 0) -> Fault:
    """The process of a workspace that runs the program. `above`: what has started it instead: 1 is pid 1 of the
    workspace, 2 its keeper, 3 the nursery of all keepers."""
    wanted = f"python\0{program}\0".encode()

    def fault(platform: Platform) -> psutil.Process:
        sandbox = process_of(platform, "sandbox").pid
        for name in os.listdir("/proc"):  # most live for less than a second: whoever is found is killed at once
            with suppress(OSError, psutil.Error):
                if name.isdigit() and Path(f"/proc/{name}/cmdline").read_bytes() == wanted:
                    line = [psutil.Process(int(name)), *psutil.Process(int(name)).parents()]
                    if sandbox in [one.pid for one in line]:
                        line[above].kill()
                        return line[above]
        raise NobodyThere

    return fault


AGENT, SERVER = "/tmp/harness/agent.py", "/tmp/harness/server.py"
FAULTS: Mapping[str, Fault] = {
    "sandbox killed": kill("sandbox"),
    "an engine killed": kill_engine,
    "a tool server killed": kill_within(SERVER),
    "Redis killed": kill("redis"),
    "a harness killed": kill_within(AGENT),
    "eval killed": kill("eval"),
    "a workspace killed": kill_within(AGENT, above=2),
    "rollout killed": kill("rollout"),
    "all workspaces killed": kill_within(AGENT, above=3),
}


def happen(platform: Platform, user: User, done: Done, until: int) -> None:
    """One after the other, each some episodes after what the one before did has passed."""
    for name, fault in itertools.cycle(FAULTS.items()):
        reach(done, done.episodes + STEP)
        if done.episodes >= until:
            return
        while not (victim := attempt(fault, platform)):
            if done.over.is_set():
                return
            time.sleep(0.02)
        at = time.monotonic()
        wait_until(partial(has_ended, victim), SETTLE_S, pause=0.2)
        wait_until(lambda: is_well(platform, done), SETTLE_S)
        user.insist(lambda client: client.chat(MODEL, "worked", max_tokens=8))
        done.faults.append(name)
        say(f"{name}, well again after {time.monotonic() - at:.0f} s; {done.episodes} episodes")


def attempt(fault: Fault, platform: Platform) -> psutil.Process | None:
    with suppress(NobodyThere):
        return fault(platform)
    return None


def reach(done: Done, episodes: int) -> None:
    """Waits until so many episodes are done, or all that there are."""
    deadline = time.monotonic() + STALL_S
    while done.episodes < episodes and not done.over.is_set():
        assert time.monotonic() < deadline, f"{done.episodes} episodes after {STALL_S} s"
        time.sleep(0.2)


def has_ended(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def is_well(platform: Platform, done: Done) -> bool:
    state = platform.home.read_state()
    if state is None or not state.healthy:
        return False
    sandbox = state.service("sandbox")
    if sandbox and sandbox.pid:
        done.sandboxes.add(sandbox.pid)
    return True


# Episodes


def play(user: User, environment: environment_pb2.EnvironmentSpec, episodes: int, done: Done) -> None:
    while episodes > 0:
        samples = max(1, min(ROUND, episodes) // len(KINDS))
        episodes -= samples * len(KINDS)
        evaluate(user, environment, samples, f"{environment.name}-{episodes}", done)


def evaluate(
    user: User, environment: environment_pb2.EnvironmentSpec, samples: int, request_id: str, done: Done
) -> None:
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=model_pb2.VersionRef(model=MODEL, number=1)),
        problems=problem_pb2.ProblemSetRef(name=SET),
        environment=environment,
        samples_per_problem=samples,
        temperature=0,
        max_tokens=8,
    )
    id = user.insist(lambda client: client.evaluations.create(spec, request_id)).id
    evaluation = eval_pb2.Evaluation()
    while not evaluation.end_time.seconds:
        evaluation = user.insist(lambda client: client.evaluations.get(id))
        done.progress[id] = evaluation.samples_done
        time.sleep(0.3)
    state = eval_pb2.Evaluation.State.Name(evaluation.state)
    say(f"{environment.name}: {state} {dict(evaluation.verdicts)} {evaluation.failure.message}")
    assert evaluation.state == eval_pb2.Evaluation.STATE_SUCCEEDED, evaluation.failure
    found = user.insist(lambda client: list(client.evaluations.samples(id)))
    assert len(found) == samples * len(KINDS)
    for sample in found:
        look_at(user, id, sample, done)


def look_at(user: User, evaluation_id: str, sample: eval_pb2.Sample, done: Done) -> None:
    kind, verdict = KINDS[sample.problem_id], verdict_pb2.Verdict.Name(sample.verdict).removeprefix("VERDICT_")
    done.verdicts[f"{kind.deed} {verdict}"] += 1
    is_right = (verdict == "PASSED") == kind.is_solved and verdict != "UNSPECIFIED"
    if is_right and kind.deed != "attack":
        return
    episode = user.insist(lambda client: client.evaluations.episode(evaluation_id, sample.problem_id, sample.index))
    record = MessageToDict(episode.record)
    said = json.dumps(record)
    if kind.deed == "attack":
        done.attacks[next(iter(re.findall(r"attack: (\w+)", said)), "untold")] += 1
    if is_right:
        return
    if kind.is_solved and record["ended"]["how"] == "signal 9":
        done.killed += 1
        return
    done.wrong.append(f"{evaluation_id} {sample.problem_id}:{sample.index} {verdict} {sample.detail} {said[-3000:]}")
    say(f"wrong: {done.wrong[-1]}")


# What is looked at


def look(platform: Platform) -> Figures:
    figures: Figures = {}
    for service in ("sandbox", "eval", "gateway", "registry", "trainer", "rollout"):
        process = process_of(platform, service)
        figures[f"{service} memory"] = process.memory_info().rss
        figures[f"{service} descriptors"] = process.num_fds()
        figures[f"{service} threads"] = process.num_threads()
    for engine in find(platform, "VLLM::EngineCore")[:1]:
        figures["engine memory"] = engine.memory_info().rss
    figures["sandbox processes"] = len(process_of(platform, "sandbox").children(recursive=True))
    own = os.walk(platform.home.path)
    figures["files"] = sum(len(names) for folder, _, names in own if Path(folder).name != "logs")
    figures["temporary files"] = len(os.listdir(platform.environment["TMPDIR"]))
    with redis_of(platform) as store:
        figures["redis keys"] = store.dbsize()
        figures["redis messages"] = sum(store.xlen(key) for key in store.scan_iter(_type="stream"))
    return figures


def look_on(platform: Platform, done: Done, begin: int, end: int) -> Sequence[Figures]:
    """While nothing is killed any more."""
    looks = []
    for number in range(LOOKS):
        at = begin + (end - begin) * number // LOOKS
        reach(done, at)
        looks.append(look(platform))
        say(f"{number + 1}/{LOOKS}, {done.episodes} episodes: {shown(looks[-1])}")
    return looks


# The test


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rat-t-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_no_fault_and_no_attack_is_a_reward_and_nothing_is_left(temporary: Path, tmp_path: Path) -> None:
    done = Done()
    settings = {
        "TMPDIR": str(temporary),
        "RATCHET_EVAL_SLOTS": "2",
        "RATCHET_ROLLOUT_TOOL_PARSERS": json.dumps({MODEL: "hermes"}),
    }
    with left.adopting():
        with running(settings) as platform:
            try:
                looks = soak(platform, tmp_path, done)
            finally:
                if logs := os.environ.get("SOAK_LOGS"):
                    shutil.copytree(platform.home.logs, logs, dirs_exist_ok=True)
        say(f"{done.episodes} episodes, {Counter(done.faults)}, {done.verdicts}, {done.attacks}, {done.killed} killed")
        assert left.processes() == []
    assert left.mounts(temporary, platform.home.path) == []
    assert left.cgroups(done.sandboxes) == []
    assert left.files(temporary) == []
    assert done.wrong == []
    assert done.killed <= done.faults.count("a harness killed")
    if EPISODES >= ENOUGH:
        assert set(done.faults) == set(FAULTS)
        grown = {name: values for name in looks[0] if not is_flat(name, values := [one[name] for one in looks])}
        assert grown == {}


def soak(platform: Platform, folder: Path, done: Done) -> Sequence[Figures]:
    write_tasks(folder / "tasks")
    added = platform.ratchet("data", "add", "--name", SET, str(folder / "tasks"))
    assert added.returncode == 0, added.stderr
    model = table_model.write(platform.home.path / "models" / MODEL, answers())
    with platform.client() as client:
        client.models.create_version(MODEL, str(model))
        version = client.models.wait_version(MODEL, 1)
        assert version.policy_id, version.failure
        client.models.set_alias(MODEL, "champion", 1)
        client.chat(MODEL, "worked", max_tokens=8)
    assert is_well(platform, done)
    say("ready")
    with ThreadPoolExecutor(4) as hands, platform.client() as one, platform.client() as two, platform.client() as three:
        playing = [
            hands.submit(play, User([client]), environment, EPISODES // 2, done)
            for client, environment in zip((one, two), environments(), strict=True)
        ]
        calm = 2 * EPISODES // 3
        happening = hands.submit(happen, platform, User([three]), done, calm)
        looking = hands.submit(look_on, platform, done, calm, EPISODES - len(KINDS))
        try:
            for work in playing:
                work.result()
        finally:
            done.over.set()
        happening.result()
        return looking.result()
