"""What a check test costs, in page faults and CPU time: `python -m tests.bench.check_costs [NAME ...]`.

Published samples of evaluation_speed.py, each alone in one lane, through all that the service does but gRPC. Each is
run twice, as its problem's tests are compiled and read once, and the second run counts. Page faults hardly move with
what else the machine does; CPU times double on a busy one. Left out are samples that compute for over a second.
"""

import argparse
import asyncio
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import timedelta
from pathlib import Path

import ratchet_benchmarks
from ratchet.sandbox.v1 import program_pb2
from ratchet_environments import Task
from ratchet_environments.programs import program_for
from ratchet_kit import logs
from sandbox_service import convert
from sandbox_service.adapters.aside.process import AsideProcess
from sandbox_service.adapters.lanes.options import LaneOptions
from sandbox_service.adapters.lanes.pool import LanePool
from sandbox_service.domain.execution import Execution, Verdict
from sandbox_service.domain.sandbox import Sandbox
from sandbox_service.settings import Settings
from sandbox_service.unpacking import Unpacker
from tests.bench.evaluation_speed import LINES, ROOT, Line, bring, samples_of

MOST = timedelta(seconds=1)
TABLE = "{:12}{:>8}{:>8}{:>16}{:>14}{:>14}{:>14}{:>14}"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU times in seconds. `faults`, `user`, `system`: of the processes of programs and tests."""

    faults: float = 0
    user: float = 0
    system: float = 0
    keeper: float = 0
    zygote: float = 0
    service: float = 0

    def since(self, before: "Cost") -> "Cost":
        return Cost(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))

    def plus(self, more: "Cost") -> "Cost":
        return Cost(*(one + other for one, other in zip(astuple(self), astuple(more), strict=True)))


def spent() -> Cost:
    """So far, of all lanes. The keeper is a child of this process, the zygote the keeper's, and has waited for all."""
    keepers = list(children(os.getpid()))
    zygotes = [child for keeper in keepers for child in children(keeper)]
    faults = user = system = own = 0.0
    for zygote in zygotes:
        fields = stat(zygote)
        faults += int(fields[8])
        user, system = user + int(fields[13]) / TICKS, system + int(fields[14]) / TICKS
        own += (int(fields[11]) + int(fields[12])) / TICKS
    keeping = sum((int(stat(keeper)[11]) + int(stat(keeper)[12])) / TICKS for keeper in keepers)
    return Cost(faults, user, system, keeping, own, time.process_time())


def stat(pid: int) -> list[str]:
    """The fields of proc(5) from the third on, the state."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            if b"enter.py" in Path(f"/proc/{child}/cmdline").read_bytes():
                yield child


def programs_of(line: Line, data: Path, most: int) -> list[program_pb2.Program]:
    benchmark = ratchet_benchmarks.load(line.benchmark)
    problems = {problem.id: problem for problem in benchmark.problems}
    samples = [sample for sample in samples_of(line, data) if sample.index % line.copies == 0]
    found = []
    for sample in samples[:: max(1, len(samples) // most)][:most]:
        problem = problems[sample.problem_id]
        source = (benchmark.solution if sample.is_program else benchmark.program)(problem, sample.text)
        task = Task.of(problem, runtime=benchmark.runtime, limits=benchmark.limits(problem), is_program=True)
        found.append(program_for(task, source))
    return found


async def measure(programs: Sequence[program_pb2.Program]) -> tuple[int, int, Cost]:
    """How many ran, how many of them passed, what one of them cost."""
    settings, ran, passed, whole = Settings(port=0), 0, 0, Cost()
    bounds = convert.Bounds(settings.max_limits, settings.max_source_bytes)
    async with AsideProcess() as aside, LanePool(LaneOptions(lanes=1)) as pool:
        sandbox, unpack = Sandbox(pool, queue_limit=10, aside=aside), Unpacker(aside)

        async def run(message: program_pb2.Program) -> Execution:
            (program,) = await unpack(message.ByteSize(), convert.programs_from_proto, [message], bounds)
            return await sandbox.execute(program)

        for message in programs:
            if (await run(message)).cpu_time > MOST:
                continue
            before = spent()
            execution = await run(message)
            whole = whole.plus(spent().since(before))
            ran, passed = ran + 1, passed + (execution.verdict is Verdict.PASSED)
    return ran, passed, Cost(*(value / max(ran, 1) for value in astuple(whole)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(LINES)}")
    parser.add_argument("--most", type=int, default=200, help="samples of a benchmark")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="published data and samples")
    options = parser.parse_args()
    logs.configure("check_costs", "ERROR")
    print("of each sample: faults, and milliseconds of CPU time")
    print(TABLE.format("samples of", "number", "passed", "page faults", "user", "system", "keeper, zygote", "service"))
    for name in options.names or ("humaneval", "humaneval+", "mbpp+"):
        bring(LINES[name], options.data)
        ran, passed, cost = asyncio.run(measure(programs_of(LINES[name], options.data, options.most)))
        times = [f"{1000 * value:.1f}" for value in (cost.user, cost.system)]
        own = f"{1000 * cost.keeper:.1f}, {1000 * cost.zygote:.1f}"
        print(
            TABLE.format(name, ran, passed, f"{cost.faults:.0f}", *times, own, f"{1000 * cost.service:.1f}"), flush=True
        )


if __name__ == "__main__":
    main()
