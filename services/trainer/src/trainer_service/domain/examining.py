"""From the spec that was asked for to the one that is run: looked at as a whole, completed, and pinned."""

from dataclasses import replace

from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound
from trainer_service.domain import defaults, validation
from trainer_service.domain.platform import BaseModel, Platform, Surroundings
from trainer_service.domain.ports import FoundSet, ModelFolders, ModelRegistry, ProblemSets
from trainer_service.domain.spec import ModelRef, ProblemSetRef, RunSpec


class Examiner:
    def __init__(
        self, registry: ModelRegistry, folders: ModelFolders, problems: ProblemSets, platform: Platform
    ) -> None:
        self._registry = registry
        self._folders = folders
        self._problems = problems
        self._platform = platform

    async def examine(self, spec: RunSpec) -> RunSpec:
        """The spec with every choice made, its base pinned to a version or path, and its problem sets digested.

        Raises:
            InvalidArgument: every fault of it, those that show only outside of it (is there such a base?) included.
            Unavailable: the registry or a store is needed to tell, and cannot be reached.
        """
        violations: list[FieldViolation] = []
        base = await self._find_base(spec.base, violations)
        problems = await self._find_problems("problems", spec.problems, violations)
        validated = await self._find_problems("validation_problems", spec.validation_problems, violations)
        around = Surroundings(base, problems.size if problems else None, validated.size if validated else None)
        violations = [*validation.faults(spec, self._platform, around), *violations]
        if violations or base is None:
            named = "; ".join(f"{violation.field}: {violation.description}" for violation in violations)
            raise InvalidArgument(f"the spec is not valid: {named}", violations)
        found = replace(
            spec,
            base=_pinned(spec.base, base),
            problems=problems.ref if problems else spec.problems,
            validation_problems=validated.ref if validated else None,
        )
        return await self._with_default_validation(defaults.complete(found, base, self._platform))

    async def _find_base(self, ref: ModelRef | None, violations: list[FieldViolation]) -> BaseModel | None:
        """None where the reference is wrong, which `validation.faults` says, or leads nowhere."""
        if ref is None or not validation.is_reference(ref):
            return None
        try:
            if ref.kind == "path":
                return await self._folders.inspect(ref.value)
            version = await self._registry.resolve(ref)
            return replace(await self._folders.inspect(version.uri), name=version.name)
        except NotFound as e:
            violations.append(FieldViolation(f"spec.base.{ref.kind}", e.message))
            return None

    async def _find_problems(
        self, field: str, ref: ProblemSetRef | None, violations: list[FieldViolation]
    ) -> FoundSet | None:
        if ref is None or not validation.is_problem_set(ref):
            return None
        try:
            return await self._problems.look_up(ref)
        except (NotFound, InvalidArgument) as e:
            violations.append(FieldViolation(f"spec.{field}.name", e.message))
            return None

    async def _with_default_validation(self, spec: RunSpec) -> RunSpec:
        """A validation set that `defaults` guessed may not exist: then the run is not validated."""
        guessed = spec.validation_problems
        if guessed is None or guessed.digest:
            return spec
        try:
            return replace(spec, validation_problems=(await self._problems.look_up(guessed)).ref)
        except NotFound:
            return replace(spec, validation_problems=None)


def _pinned(ref: ModelRef | None, base: BaseModel) -> ModelRef:
    """An alias may point elsewhere tomorrow: every attempt starts from what it named at Create."""
    by_path = ref is not None and ref.kind == "path"
    return ModelRef("path", base.uri) if by_path else ModelRef("version", base.name)
