"""What only shows after a while: gateway, eval, sandbox and registry under mixed load, with what was made
deleted again, keep their memory, descriptors, rows and files. `make soak`: SOAK_MINUTES, an hour by default."""

import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from sqlite3 import connect

import psutil
import pytest
import redis

import ratchet_problems
from ratchet.common.v1 import problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.sandbox.v1 import program_pb2
from ratchet_client import ApiError, Client, Unreachable
from tests.chaos.accepted import tiny_model
from tests.chaos.judges import KEY, SERVICES, Judges, one_of_each

MINUTES = float(os.environ.get("SOAK_MINUTES", "60"))
LOOKS = 30
GROWTH = 1.05
SPARE_BYTES = 4 << 20
"""Of memory, that a service may take and give back."""

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(int(60 * MINUTES) + 600)]

Figures = dict[str, float]


# Load: each leaves nothing


def evaluates(client: Client) -> None:
    """Three samples that are right, and one that isn't."""
    problem = ratchet_problems.load("basics")[0]
    texts = [*problem.references[:1] * 3, "def broken("]
    spec = eval_pb2.EvaluationSpec(
        problems=problem_pb2.ProblemSetRef(name="basics", limit=1), samples_per_problem=4, imported_samples=4, k=[1]
    )
    id = client.evaluations.create(spec).id
    given = [
        eval_pb2.ImportedSample(problem_id=problem.id, index=index, solution=text) for index, text in enumerate(texts)
    ]
    client.evaluations.add_samples(id, given)
    assert client.evaluations.wait(id).state == eval_pb2.Evaluation.STATE_SUCCEEDED
    assert len(list(client.evaluations.samples(id))) == 4
    client.evaluations.delete(id)


def judges_a_batch(client: Client) -> None:
    programs = [program_pb2.Program(id=f"p{number}", source=f"print({number})") for number in range(20)]
    programs.append(program_pb2.Program(id="hangs", source="while True: pass"))
    programs[-1].limits.cpu_time.FromMilliseconds(200)
    id = client.batches.create(programs).id
    assert sum(len(reply.items) for reply in client.batches.watch(id)) == len(programs)
    client.batches.delete(id)


def keeps_a_version(client: Client, source: Path) -> None:
    """It moves no alias: their history is kept for good."""
    version = client.models.create_version("soaked", str(source))
    number = client.models.wait_version("soaked", version.ref.number).ref.number
    if number > 1:
        client.models.delete_version("soaked", number - 1)


def errs(client: Client, number: int) -> None:
    """Names that were never there, a request that says nothing, a wrong key, a model that nobody serves."""
    stranger = Client(client.url, f"rk_wrong_{number}")
    with closing(stranger):
        for call in (
            lambda: client.models.get(f"invented-{number}"),
            lambda: client.evaluations.get(f"eval_invented_{number}"),
            lambda: client.evaluations.create(eval_pb2.EvaluationSpec()),
            lambda: client.chat(f"invented-{number}", "hello", max_tokens=8),
            lambda: list(stranger.keys.list()),
        ):
            with pytest.raises(ApiError):
                call()


def leaves_early(client: Client) -> None:
    """A watch that is broken off."""
    id = client.batches.create([program_pb2.Program(id="p", source="import time; time.sleep(0.5)")]).id
    watching = client.batches.watch(id)
    with suppress(StopIteration):
        next(watching)
    assert isinstance(watching, Generator)
    watching.close()
    list(client.batches.watch(id))
    client.batches.delete(id)


@contextmanager
def load(judges: Judges) -> Iterator[dict[str, int]]:
    """Each kind from a client of its own, until the end of it. How often each was done."""
    done: dict[str, int] = {}
    stop, broken = threading.Event(), list[BaseException]()
    source = tiny_model(judges.folder / "source", 1)

    def repeat(name: str, act: Callable[[Client, int], object]) -> None:
        with Client(judges.urls[0], KEY) as client:
            while not stop.is_set():
                try:
                    act(client, done.get(name, 0))
                except (ApiError, Unreachable, AssertionError) as error:
                    broken.append(error)
                    return
                done[name] = done.get(name, 0) + 1
                stop.wait(0.05)

    kinds: dict[str, Callable[[Client, int], object]] = {
        "evaluations": lambda client, _: evaluates(client),
        "batches": lambda client, _: judges_a_batch(client),
        "versions": lambda client, _: keeps_a_version(client, source),
        "errors": errs,
        "broken watches": lambda client, _: leaves_early(client),
        "lists": lambda client, _: (list(client.keys.list()), list(client.models.list())),
    }
    threads = [threading.Thread(target=repeat, args=item) for item in kinds.items()]
    for thread in threads:
        thread.start()
    try:
        yield done
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert broken == []


# What is looked at


def look(judges: Judges, store: "redis.Redis") -> Figures:
    figures: Figures = {}
    for service in SERVICES:
        (replica,) = judges.replicas[service]
        assert replica.process is not None
        process = psutil.Process(replica.process.pid)
        figures[f"{service} memory"] = process.memory_info().rss
        figures[f"{service} descriptors"] = process.num_fds()
        figures[f"{service} threads"] = process.num_threads()
        figures[f"{service} processes"] = len(process.children(recursive=True))
        figures[f"{service} rows"] = rows(judges.folder / f"{service}.db")
    figures["files"] = sum(len(names) for _, _, names in os.walk(judges.folder))
    figures["redis keys"] = store.dbsize()
    figures["redis messages"] = sum(store.xlen(key) for key in store.scan_iter(_type="stream"))
    return figures


def rows(file: Path) -> int:
    with closing(connect(f"file:{file}?mode=ro", uri=True)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return sum(database.execute(f'SELECT count(*) FROM "{table}"').fetchone()[0] for table in tables)


def test_flat_under_mixed_load(tmp_path: Path) -> None:
    with ExitStack() as stack:
        judges = stack.enter_context(one_of_each(tmp_path))
        store = stack.enter_context(redis.Redis.from_url(judges.redis_url))
        with load(judges) as done:
            looks = []
            for number in range(LOOKS):
                time.sleep(60 * MINUTES / LOOKS)
                looks.append(look(judges, store))
                print(f"{number + 1}/{LOOKS} {done} {shown(looks[-1])}", flush=True)
    assert len(done) == 6, done
    grown = {name: values for name in looks[0] if not is_flat(name, values := [one[name] for one in looks])}
    assert grown == {}


def is_flat(name: str, values: list[float]) -> bool:
    """After a third of the time: of what comes and goes, the lowest of the last third is no more than was there."""
    third = len(values) // 3
    before, after = values[third : 2 * third], values[2 * third :]
    if name.endswith(" memory"):
        return sum(after) / len(after) <= GROWTH * sum(before) / len(before) + SPARE_BYTES
    return min(after) <= max(before)


def shown(figures: Figures) -> str:
    return ", ".join(
        f"{name} {value / 2**20:.0f} MiB" if name.endswith(" memory") else f"{name} {value:.0f}"
        for name, value in figures.items()
    )
