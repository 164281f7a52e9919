"""What becomes of a run that has trained: a version of its best checkpoint."""

import hashlib
import json
from dataclasses import asdict
from datetime import timedelta

from ratchet_kit.errors import (
    AlreadyExists,
    FailedPrecondition,
    Failure,
    InvalidArgument,
    NotFound,
    RatchetError,
    Unavailable,
)
from ratchet_kit.faults import Faults
from ratchet_kit.logs import get_logger
from ratchet_kit.names import VersionRef
from ratchet_kit.retry import OUTSIDE
from ratchet_kit.times import Clock
from trainer_service.domain.guards.guards import LEARNED_NOTHING
from trainer_service.domain.inputs.ports import ProblemSets
from trainer_service.domain.run.checkpoint import Checkpoint
from trainer_service.domain.run.ports import RunStore
from trainer_service.domain.run.run import Run, RunId
from trainer_service.domain.spec.spec import ProblemSetRef, RunSpec
from trainer_service.domain.work.ports import (
    Evaluations,
    Lineage,
    MeasuredProblems,
    RegisteredVersion,
    VersionRegistry,
    VersionState,
)

log = get_logger(__name__)

_NAMED = 10
"""Steps that an error names."""
_GO_ON: tuple[type[RatchetError], ...] = (AlreadyExists, *OUTSIDE)
_OUTSIDE = frozenset(Failure.of(kind("")).code for kind in OUTSIDE)


class Registration:
    def __init__(
        self,
        registry: VersionRegistry,
        problems: ProblemSets,
        evaluations: Evaluations,
        clock: Clock,
        code_version: str,
        again: timedelta,
    ) -> None:
        """`again`: before a version that the platform could not make is asked for again; the n-th time n times that."""
        self._registry = registry
        self._problems = problems
        self._evaluations = evaluations
        self._clock = clock
        self._code_version = code_version
        self._again = again
        self._known: dict[ProblemSetRef, tuple[str, ...]] = {}
        """The fingerprints of the last run's sets: a version is asked for every second."""

    async def version(self, run: Run) -> RegisteredVersion:
        """The version of the best checkpoint, as it is now: the registry makes one per run, however often it is asked.

        Where the platform failed to make it (its disk was full, say), another is asked for in its place after a while.
        Raises FailedPrecondition when there is no checkpoint, or the registry refuses it, and OUTSIDE.
        """
        assert run.trained_time is not None
        if run.best_checkpoint is None:
            raise FailedPrecondition("the job reported no checkpoint: there is nothing to register")
        lineage = await self._lineage(run, run.best_checkpoint)
        due, number = run.trained_time, 0
        while True:
            number += 1
            try:
                version = await self._ask_for_version(run, _request_id(run, number), lineage)
            except AlreadyExists:  # with another lineage: this service was updated since
                continue
            failure = version.failure
            if version.state is not VersionState.FAILED or failure is None or failure.code not in _OUTSIDE:
                return version
            due += self._again * number
            if self._clock.now() < due:
                raise Unavailable(f"the registry could not make {version.ref}, and is asked again: {failure.message}")

    async def export(self, request_id: str, run: Run, checkpoint: Checkpoint, model: str) -> RegisteredVersion:
        """A version of this checkpoint; the same again gives the same. Raises FailedPrecondition where nobody knows any
        more by what it was chosen, and what the registry raises."""
        lineage = await self._lineage(run, checkpoint)
        own_id = f"{run.id}-step-{checkpoint.step}-{request_id}"  # apart from that of the run's end
        return await self._registry.register(own_id, model, checkpoint.uri, lineage)

    async def _ask_for_version(self, run: Run, request_id: str, lineage: Lineage) -> RegisteredVersion:
        assert run.best_checkpoint is not None
        try:
            return await self._registry.register(request_id, run.spec.output_model, run.best_checkpoint.uri, lineage)
        except _GO_ON:
            raise
        except RatchetError as error:
            raise FailedPrecondition(f"the registry refused the best checkpoint: {error.message}") from error

    async def _lineage(self, run: Run, checkpoint: Checkpoint) -> Lineage:
        spec = run.spec
        assert spec.base is not None
        chosen_by = spec.chosen_by
        learned = await self._fingerprints(spec.learned, is_pairs=spec.pairs is not None)
        newer = [one.problems for one in run.drawn_by(checkpoint.step)]
        drawn = {ref.digest: await self._fingerprints(ref) for ref in newer}
        if before := spec.parent:
            drawn |= {ref.digest: await self._fingerprints(ref) for ref in before.problems}
            drawn |= {ref.digest: await self._fingerprints(ref, is_pairs=True) for ref in before.pairs}
            drawn.pop(spec.learned.digest, None)
        selection = await self._selection(run, checkpoint)
        self._known = {ref: prints for ref, prints in self._known.items() if ref in (spec.learned, chosen_by, *newer)}
        return Lineage(
            base=(spec.parent and spec.parent.base) or spec.base,
            run_id=run.id,
            data_digest=spec.learned.digest,
            config_digest=config_digest(spec),
            code_version=self._code_version,
            step=checkpoint.step,
            training_fingerprints=learned,
            selection_digest=selection.digest,
            selection_fingerprints=selection.fingerprints,
            system=spec.system,
            drawn=drawn,
            labels={"learned": "nothing"} if any(one.guard == LEARNED_NOTHING for one in run.notices) else {},
        )

    async def _selection(self, run: Run, checkpoint: Checkpoint) -> MeasuredProblems:
        """The problems by which the checkpoint was chosen; empty where it was not. Raises FailedPrecondition where
        nobody knows them any more."""
        if checkpoint.is_scored and checkpoint.evaluation_id:
            try:
                return await self._evaluations.problems(checkpoint.evaluation_id)
            except NotFound as error:
                gone = f"evaluation {checkpoint.evaluation_id} was deleted, by which the checkpoint was chosen"
                by_hand = f"no gate could tell its problems; ratchet models add NAME {checkpoint.uri} registers it"
                raise FailedPrecondition(f"{gone}: {by_hand}") from error
        chosen_by = run.spec.chosen_by
        if chosen_by is None or not checkpoint.is_scored:
            return MeasuredProblems("", ())
        prints = await self._fingerprints(chosen_by, is_pairs=run.spec.validation_problems is None)
        return MeasuredProblems(chosen_by.digest, prints)

    async def _fingerprints(self, problems: ProblemSetRef, *, is_pairs: bool = False) -> tuple[str, ...]:
        if problems in self._known:
            return self._known[problems]
        try:
            found = await (self._problems.pairs if is_pairs else self._problems.look_up)(problems)
        except (NotFound, InvalidArgument) as error:
            log.warning("problems.gone", problems=problems.name, reason=error.message)
            return ()
        self._known[problems] = found.fingerprints if found.ref.digest == problems.digest else ()
        return self._known[problems]


class Exporting:
    """Versions of checkpoints, whenever somebody asks for one."""

    def __init__(self, store: RunStore, registration: Registration) -> None:
        self._store = store
        self._registration = registration

    async def export(self, request_id: str, id: RunId, step: int, model: str) -> VersionRef:
        """Registers the model of a step, in the run's output model or in `model`.

        Raises:
            InvalidArgument: no model is named, or the registry refuses the name.
            NotFound: no such run.
            FailedPrecondition: the step has no model, or nobody knows any more by what it was chosen.
            AlreadyExists: the request id was used for another version.
            Unavailable: the registry cannot be reached, or is busy.
        """
        run = await self._store.get(id)
        model = model or run.spec.output_model
        faults = Faults()
        faults.required("request_id", request_id)
        faults.unless(bool(model), "model", f"must name a model of the registry: run {id} has no output_model")
        faults.raise_if_any("the checkpoint cannot be exported")
        found = await self._store.checkpoints(id, 1, step - 1)
        if not found or found[0].step != step or not found[0].uri:
            there = [str(one.step) for one in await self._store.checkpoints(id, run.spec.steps + 1, -1) if one.uri]
            steps = ", ".join(there[-_NAMED:]) or "none"
            raise FailedPrecondition(f"step {step} of run {id} has no model; these have one: {steps}")
        version = await self._registration.export(request_id, run, found[0], model)
        return version.ref


def _request_id(run: Run, number: int) -> str:
    """What was refused before a run was resumed is asked for anew."""
    base = f"{run.id}-resumed-{run.resumes}" if run.resumes else run.id
    return base if number == 1 else f"{base}-{number}"


def config_digest(spec: RunSpec) -> str:
    """`sha256:<hex>` over the whole spec, in a form that does not depend on the order of fields."""
    text = json.dumps(asdict(spec), sort_keys=True, ensure_ascii=False)
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
