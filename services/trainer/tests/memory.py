"""The ports in memory: the domain's tests run over these, and they pass the same contract suites as the real ones."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ratchet_kit import projects
from ratchet_kit.errors import Failure, InvalidArgument, NotFound, Unavailable
from ratchet_kit.idempotency import Made, Request
from ratchet_kit.names import AliasRef, BareModel, RewardRef, VersionRef
from ratchet_kit.statistics import Estimate
from ratchet_rewards import Registered
from trainer_service.domain.cluster.capacity import Demand, Node
from trainer_service.domain.cluster.ports import JobState, JobStatus
from trainer_service.domain.inputs.found import FetchedModel, FoundModel, FoundSet, Trial
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunFile, RunFilter
from trainer_service.domain.run.run import Run, RunId, State, Step
from trainer_service.domain.run.sample import Sample, Wanted
from trainer_service.domain.spec.curriculum import Kind
from trainer_service.domain.spec.plugins import Installed
from trainer_service.domain.spec.recipes import Recipe
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec, Validation
from trainer_service.domain.work.ports import Lineage, Measured, MeasuredProblems, RegisteredVersion, VersionState


class MemoryRunStore:
    def __init__(self) -> None:
        self._runs: dict[RunId, Run] = {}
        self._made = Made[RunId]("run")
        self._steps: dict[RunId, dict[int, Step]] = {}
        self._checkpoints: dict[RunId, dict[int, Checkpoint]] = {}

    async def create(self, run: Run, request: Request) -> Run:
        if stored := await self.made_by(request):
            return stored
        self._made.add(request, run.id)
        self._runs[run.id] = run
        return run

    async def made_by(self, request: Request) -> Run | None:
        id = self._made.find(request)
        return self._runs[id] if id else None

    async def get(self, id: RunId) -> Run:
        if id not in self._runs:
            raise NotFound(f"there is no run {id!r}")
        return self._runs[id]

    async def page(self, limit: int, after: str | None, only: RunFilter = RunFilter()) -> Sequence[Run]:
        def fits(run: Run) -> bool:
            models = (getattr(run.spec.base, "model", ""), run.spec.output_model)
            return (
                only.state in (None, run.state)
                and (not only.model or only.model in models)
                and only.name.lower() in run.spec.display_name.lower()
                and (only.after_time is None or run.create_time >= only.after_time)
            )

        ids = sorted((id for id in self._runs if after is None or id < after), reverse=True)
        return [self._runs[id] for id in ids if fits(self._runs[id])][:limit]

    async def unfinished(self) -> Sequence[Run]:
        return [self._runs[id] for id in sorted(self._runs) if not self._runs[id].state.is_final]

    async def tracked(self) -> Sequence[Run]:
        found = [run for run in self._runs.values() if any(not track.is_done for track in run.tracks)]
        return sorted(found, key=lambda run: run.id)

    async def counts(self) -> Mapping[State, int]:
        return Counter(run.state for run in self._runs.values())

    async def delete(self, id: RunId) -> None:
        await self.get(id)
        self._made.remove({id})
        for table in (self._runs, self._steps, self._checkpoints):
            table.pop(id, None)

    async def change(self, id: RunId, change: Callable[[Run], Run]) -> Run:
        self._runs[id] = change(await self.get(id))
        return self._runs[id]

    async def arrange(self, change: Callable[[Sequence[Run]], Sequence[Run]]) -> Sequence[Run]:
        changed = change(await self.unfinished())
        self._runs |= {run.id: run for run in changed}
        return changed

    async def record_step(self, id: RunId, step: Step, change: Callable[[Run, Step | None], Run]) -> Run:
        of_run = self._steps.setdefault(id, {})
        self._runs[id] = change(await self.get(id), of_run.get(step.number))
        of_run[step.number] = step
        return self._runs[id]

    async def record_checkpoint(
        self, id: RunId, checkpoint: Checkpoint, change: Callable[[Run, Sequence[Checkpoint]], Run]
    ) -> Run:
        of_run = self._checkpoints.get(id, {}) | {checkpoint.step: checkpoint}
        self._runs[id] = change(await self.get(id), [of_run[step] for step in sorted(of_run)])
        self._checkpoints[id] = of_run
        return self._runs[id]

    async def change_checkpoint(
        self,
        id: RunId,
        step: int,
        change: Callable[[Checkpoint], Checkpoint],
        then: Callable[[Run, Sequence[Checkpoint]], Run],
    ) -> Run:
        run, of_run = await self.get(id), dict(self._checkpoints.get(id, {}))
        if step not in of_run:
            raise NotFound(f"run {id} has no checkpoint of step {step}")
        of_run[step] = changed = change(of_run[step])
        self._runs[id] = then(run, [of_run[step] for step in sorted(of_run)])
        self._checkpoints[id] = of_run
        if changed.metrics and (known := self._steps.get(id, {}).get(step)):
            self._steps[id][step] = replace(known, metrics={**known.metrics, **changed.metrics})
        return self._runs[id]

    async def steps(self, id: RunId, limit: int, after: int) -> Sequence[Step]:
        of_run = self._steps.get(id, {})
        return [of_run[number] for number in sorted(of_run) if number > after][:limit]

    async def superseded(self, before: datetime) -> Sequence[tuple[RunId, Checkpoint]]:
        return [
            (id, one)
            for id, of_run in self._checkpoints.items()
            if (run := self._runs[id]).end_time and run.end_time < before
            for one in of_run.values()
            if one != run.best_checkpoint
        ]

    async def delete_checkpoint(self, id: RunId, step: int) -> None:
        self._checkpoints.get(id, {}).pop(step, None)

    async def checkpoints(self, id: RunId, limit: int, after: int) -> Sequence[Checkpoint]:
        of_run = self._checkpoints.get(id, {})
        return [of_run[step] for step in sorted(of_run) if step > after][:limit]


class MemoryJobs:
    """Jobs that do nothing until a test says so: `end` is a job that died, `forget` a cluster that did."""

    def __init__(self) -> None:
        self.place = "here"
        self.has = [Node(cpus=32, accelerators=4)]
        self.wanted: Sequence[Demand] = ()
        self.submitted: list[tuple[RunId, int]] = []
        self.reward_models: list[FetchedModel | None] = []
        self.stopped: list[tuple[RunId, int]] = []
        self.down = False
        self._status: dict[tuple[RunId, int], JobStatus] = {}

    async def nodes(self) -> Sequence[Node]:
        self._reach()
        return self.has

    async def holders(self) -> Mapping[Node, Sequence[RunId]]:
        self._reach()
        return {node: [id for id, _ in self.submitted] for node in self.has}

    async def want(self, demands: Sequence[Demand]) -> None:
        self._reach()
        self.wanted = demands

    async def submit(self, run: Run, base: FetchedModel, reward_model: FetchedModel | None = None) -> None:
        self._reach()
        if (run.id, run.attempt) not in self._status:
            self.submitted.append((run.id, run.attempt))
            self.reward_models.append(reward_model)
            self._status[run.id, run.attempt] = JobStatus(JobState.ACTIVE)

    async def status(self, id: RunId, attempt: int) -> JobStatus:
        self._reach()
        return self._status.get((id, attempt), JobStatus(JobState.UNKNOWN))

    async def stop(self, id: RunId, attempt: int) -> None:
        self._reach()
        status = self._status.get((id, attempt))
        if status and status.state is not JobState.ENDED:
            self.stopped.append((id, attempt))
            self.end(id, attempt, "stopped")

    def wait(self, id: RunId, attempt: int) -> None:
        self._status[id, attempt] = JobStatus(JobState.WAITING)

    def end(
        self, id: RunId, attempt: int, message: str = "", out_of_memory: bool = False, no_room: bool = False
    ) -> None:
        self._status[id, attempt] = JobStatus(JobState.ENDED, message, out_of_memory, no_room)

    def forget(self) -> None:
        self._status.clear()

    def _reach(self) -> None:
        if self.down:
            raise Unavailable("the cluster is down")


class MemoryRegistry:
    """`versions`: what names resolve to. `registered`: what was made, by request id. `state`: of all that is made, but
    for those in `failures`. `fault`: what it answers to `register`."""

    def __init__(self, versions: Mapping[str, FoundModel] | None = None) -> None:
        self.versions = dict(versions or {})
        self.registered: dict[str, tuple[str, str, Lineage]] = {}
        self.state = VersionState.READY
        self.failures: dict[str, Failure] = {}
        self.fault: Exception | None = None
        self.down = False

    async def resolve(self, ref: VersionRef | AliasRef | BareModel) -> FoundModel:
        self._reach()
        if str(ref) not in self.versions:
            raise NotFound(f"there is no {ref}")
        return self.versions[str(ref)]

    async def register(self, request_id: str, model: str, source_uri: str, lineage: Lineage) -> RegisteredVersion:
        self._reach()
        if self.fault is not None:
            raise self.fault
        self.registered.setdefault(request_id, (model, source_uri, lineage))
        ref = VersionRef(model, list(self.registered).index(request_id) + 1)
        if request_id in self.failures:
            return RegisteredVersion(ref, VersionState.FAILED, self.failures[request_id])
        failure = Failure("INVALID_ARGUMENT", "no weights") if self.state is VersionState.FAILED else None
        return RegisteredVersion(ref, self.state, failure)

    def _reach(self) -> None:
        if self.down:
            raise Unavailable("the registry is down")


class MemoryRewards:
    """`programs`: by name, the source of each version. `used`: what runs were made with."""

    def __init__(self, programs: Mapping[str, Sequence[str]] | None = None) -> None:
        self.programs = dict(programs or {})
        self.used: list[tuple[str, RunId]] = []

    async def find(self, ref: RewardRef) -> Registered:
        versions = self.programs.get(ref.name, ())
        number = ref.number or len(versions)
        if not 1 <= number <= len(versions):
            raise NotFound(f"there is no reward {ref}")
        return Registered(RewardRef(ref.name, number), versions[number - 1])

    async def use(self, ref: RewardRef, id: RunId) -> None:
        await self.find(ref)
        self.used.append((str(ref), id))


class MemorySamples:
    def __init__(self, *samples: Sample) -> None:
        self.samples = list(samples)
        self.runs: set[RunId] = set()
        """Those that have samples."""
        self.looked_at: list[int] = []

    async def steps(self, id: RunId) -> Sequence[int]:
        return list({one.step for one in self.samples})

    async def of_step(self, id: RunId, step: int, wanted: Wanted, *, records: bool = False) -> Sequence[Sample]:
        self.looked_at.append(step)
        there = [one for one in self.samples if one.step == step]
        found = [one for one in there if wanted.takes(one.problem_id, one.verdict, one.reward, one.place, one.index)]
        return found if records else [replace(one, record=b"") for one in found]

    async def with_samples(self) -> Sequence[RunId]:
        return sorted(self.runs)

    async def remove(self, id: RunId) -> None:
        self.runs.discard(id)


class MemoryFolders:
    def __init__(self, models: Mapping[str, FoundModel] | None = None) -> None:
        self.models = dict(models or {})
        self.removed: list[RunId] = []
        self.tidied: list[RunId] = []
        self.checkpoints: set[RunId] = set()
        self.removed_exports: list[str] = []
        self.free = 1 << 40
        self.records: dict[RunId, dict[str, bytes]] = {}

    async def tidy(self, id: RunId) -> None:
        self.tidied.append(id)
        self.checkpoints.discard(id)

    async def with_leftovers(self) -> Sequence[RunId]:
        return sorted(self.checkpoints)

    async def remove_export(self, id: RunId, uri: str) -> None:
        self.removed_exports.append(uri)

    async def files(self, id: RunId) -> Sequence[RunFile]:
        return [RunFile(name, len(data)) for name, data in sorted(self.records.get(id, {}).items())]

    async def read(self, id: RunId, name: str, offset: int, limit: int) -> bytes:
        return self.records[id][name][offset : offset + limit]

    async def free_bytes(self) -> int:
        return self.free

    async def inspect(self, uri: str, chat_template: str = "") -> FoundModel:
        if uri not in self.models:
            raise NotFound(f"there is no folder {uri}")
        return self.models[uri]

    async def fetch(self, model: FoundModel, id: RunId, name: str = "base", chat_template: str = "") -> FetchedModel:
        return FetchedModel(model.uri, Path(model.uri))

    async def remove(self, id: RunId) -> None:
        self.removed.append(id)


class MemoryProblems:
    def __init__(self, digests: Mapping[str, str], size: int = 1000) -> None:
        self.digests = dict(digests)
        self.size = size
        self.trials: dict[str, Trial] = {}
        self.notices: tuple[str, ...] = ()
        self.newest = ""
        self.away = False
        self.faults: dict[str, str] = {}
        self.used: list[str] = []

    async def use(self, ref: ProblemSetRef, id: RunId) -> None:
        self.used.append(ref.name)

    async def newer(self, ref: ProblemSetRef) -> ProblemSetRef | None:
        if self.away:
            raise Unavailable("the registry is away")
        return replace(ref, name=self.newest, digest="") if self.newest > ref.name else None

    async def look_up(self, ref: ProblemSetRef) -> FoundSet:
        if ref.name not in self.digests:
            raise NotFound(f"there is no problem set {ref.name!r}")
        size = min(ref.limit or self.size, self.size)
        prints = tuple(f"{ref.name}/{index}" for index in range(size))
        kinds = tuple(Kind(1 + index % 5) for index in range(size))
        ref = replace(ref, digest=self.digests[ref.name])
        faults = (self.faults[ref.name],) if ref.name in self.faults else ()
        return FoundSet(ref, size, fingerprints=prints, faults=faults, notices=self.notices, kinds=kinds)

    async def forget(self) -> None:
        pass

    async def pairs(self, ref: ProblemSetRef) -> FoundSet:
        return replace(await self.look_up(ref), form="chat")

    async def examples(self, ref: ProblemSetRef) -> FoundSet:
        return await self.look_up(ref)

    async def trial(self, ref: ProblemSetRef) -> Trial:
        return self.trials.get(ref.name, Trial())


class MemoryPlugins:
    def __init__(self, plugins: Sequence[Installed] = (), recipes: Mapping[str, Recipe] | None = None) -> None:
        self._plugins = plugins
        self._recipes = recipes or {}
        self.broken: set[str] = set()
        """Names of environments."""

    async def installed(self) -> Sequence[Installed]:
        return self._plugins

    async def recipe(self, name: str) -> Recipe:
        return self._recipes[name]

    async def check_environment(self, name: str) -> None:
        if name in self.broken:
            raise InvalidArgument(f"the environment {name} cannot be imported: no module")


class MemoryPolicies:
    def __init__(self) -> None:
        self.has: int | None = None
        self.released: list[tuple[RunId, int]] = []

        self.gpus: dict[str, int] = {}

    def places(self) -> Sequence[int] | None:
        return None if self.has is None else [self.has]

    def gpu_memory(self) -> Mapping[str, int]:
        return self.gpus

    async def release(self, id: RunId, attempt: int) -> None:
        self.released.append((id, attempt))


class MemoryEvents:
    def __init__(self) -> None:
        self.published: list[tuple[RunId, State]] = []

    async def changed(self, run: Run) -> None:
        self.published.append((run.id, run.state))


class NoMeter:
    def states(self, counts: Mapping[State, int]) -> None:
        pass

    def unfinished(self, runs: Sequence[Run], steps: Mapping[RunId, Step]) -> None:
        pass


class MemoryEvaluations:
    """Evaluations that go on until a test ends them: `end` scores one, `fail` is one that gets no score. `fault`: what
    it answers to what is new. Sets of "mine" have one version."""

    def __init__(self) -> None:
        self.created: dict[str, str] = {}
        """The exports, by request id; ids of evaluations are "eval_1", "eval_2" and so on in this order."""
        self.made_for: list[str] = []
        """The project of each that was created."""
        self.cancelled: list[str] = []
        self.fault: Exception | None = None
        self._found: dict[str, Measured] = {}

    async def check(self, spec: RunSpec) -> Validation:
        if self.fault:
            raise self.fault
        assert spec.validate is not None
        names = [one.problems.name for one in spec.validate.suite]
        pinned = [ProblemSetRef(name.replace("mine/", "mine@1/")) for name in names]
        suite = zip(spec.validate.suite, pinned, strict=True)
        return replace(spec.validate, suite=tuple(replace(one, problems=problems) for one, problems in suite))

    async def create(self, request_id: str, spec: RunSpec, uri: str) -> Measured:
        if self.fault:
            raise self.fault
        self.created.setdefault(request_id, uri)
        self.made_for.append(projects.current())
        id = f"eval_{list(self.created).index(request_id) + 1}"
        return self._found.setdefault(id, Measured(id, progress="0 of 8 samples"))

    async def get(self, id: str) -> Measured:
        if id not in self._found:
            raise NotFound(f"there is no evaluation {id}")
        return self._found[id]

    async def problems(self, id: str) -> MeasuredProblems:
        await self.get(id)
        return MeasuredProblems(f"sha256:{id}", (f"{id}/0", f"{id}/1"))

    async def cancel(self, id: str) -> None:
        self.cancelled.append(id)

    def end(self, id: str, policy_id: str, score: float) -> None:
        estimate = Estimate(score, score / 2, (1 + score) / 2)
        self._found[id] = Measured(id, policy_id, is_over=True, score=estimate)

    def fail(self, id: str, reason: str) -> None:
        self._found[id] = Measured(id, is_over=True, failure=reason)

    def forget(self, id: str) -> None:
        del self._found[id]
