"""What the references of a spec lead to: its base, and its sets of problems."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ratchet_kit.errors import FieldViolation, InvalidArgument, NotFound
from trainer_service.domain.ports import FoundModel, FoundSet, ModelFolders, ModelRegistry, ProblemSets
from trainer_service.domain.spec import ModelRef, ProblemSetRef, RunSpec

_VERSION = re.compile(r"(?:models/(?P<long>[^/@:]+)/versions/(?P<n>\d+)|(?P<short>[^/@:]+)@(?P<m>\d+))")
_ALIAS = re.compile(r"[^/@:\s]+:[^/@:\s]+")


@dataclass(frozen=True, slots=True)
class Found:
    """What a spec's references lead to. None: nowhere, for a reason in `faults`, or that there is no such reference."""

    base: FoundModel | None = None
    problems: FoundSet | None = None
    validation_problems: FoundSet | None = None
    faults: Sequence[FieldViolation] = ()


class References:
    """Looks up what specs name."""

    def __init__(self, registry: ModelRegistry, folders: ModelFolders, problems: ProblemSets) -> None:
        self._registry = registry
        self._folders = folders
        self._problems = problems

    async def find(self, spec: RunSpec) -> Found:
        """Raises Unavailable when the registry or a store is needed and cannot be reached."""
        faults: list[FieldViolation] = []
        base = await self._base(spec.base, faults)
        problems = await self._set("problems", spec.problems, faults)
        if spec.validation_problems:
            validated = await self._set("validation_problems", spec.validation_problems, faults)
        else:
            validated = await self._validation_split(spec.problems)
        return Found(base, problems, validated, faults)

    async def _base(self, ref: ModelRef | None, faults: list[FieldViolation]) -> FoundModel | None:
        if ref is None or not ref.value.strip():
            faults.append(FieldViolation("spec.base", "is missing: name a registry version, an alias or a path"))
            return None
        if ref.kind == "version" and version_parts(ref.value) is None:
            reason = f'"{ref.value}" is not "<model>@<n>" or "models/<model>/versions/<n>"'
            faults.append(FieldViolation("spec.base.version", reason))
            return None
        if ref.kind == "alias" and alias_parts(ref.value) is None:
            faults.append(FieldViolation("spec.base.alias", f'"{ref.value}" is not "<model>:<alias>"'))
            return None
        try:
            if ref.kind == "path":
                return await self._folders.inspect(ref.value)
            version = await self._registry.resolve(ref)
            return replace(await self._folders.inspect(version.uri), name=version.name)
        except NotFound as error:
            faults.append(FieldViolation(f"spec.base.{ref.kind}", error.message))
            return None

    async def _set(self, field: str, ref: ProblemSetRef, faults: list[FieldViolation]) -> FoundSet | None:
        wrong = []
        if not ref.name.strip():
            wrong.append(FieldViolation(f"spec.{field}.name", "is missing: name a problem set or a JSONL file"))
        if ref.limit < 0:
            wrong.append(FieldViolation(f"spec.{field}.limit", "must not be negative"))
        faults.extend(wrong)
        if wrong:
            return None
        try:
            return await self._problems.look_up(ref)
        except (NotFound, InvalidArgument) as error:
            faults.append(FieldViolation(f"spec.{field}.name", error.message))
            return None

    async def _validation_split(self, problems: ProblemSetRef) -> FoundSet | None:
        """The default: a set that has splits is validated on its own validation split; any other, on nothing."""
        split = problems.validation_split
        if split is None:
            return None
        try:
            return await self._problems.look_up(split)
        except NotFound:
            return None


def version_parts(value: str) -> tuple[str, int] | None:
    """Model and number of "<model>@<n>" or "models/<model>/versions/<n>"; None when it is neither."""
    match = _VERSION.fullmatch(value)
    return (match["long"] or match["short"], int(match["n"] or match["m"])) if match else None


def alias_parts(value: str) -> tuple[str, str] | None:
    """Model and alias of "<model>:<alias>"; None when it is not one."""
    if not _ALIAS.fullmatch(value):
        return None
    model, _, alias = value.partition(":")
    return model, alias
