"""What an evaluation is asked to measure, and every fault that such a wish can have."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ratchet_kit.errors import FieldViolation, InvalidArgument

MAX_SAMPLES_PER_PROBLEM = 1024
MAX_TOKENS = 131_072
MAX_TEMPERATURE = 5.0

_VERSION = re.compile(r"(?:models/([a-z0-9._-]+)/versions/|([a-z0-9._-]+)@)([1-9][0-9]{0,8})")
_ALIAS = re.compile(r"([a-z0-9._-]+):([a-z0-9._-]+)")


@dataclass(frozen=True, slots=True)
class VersionRef:
    """A registry version: "models/<model>/versions/<n>" or "<model>@<n>"."""

    text: str

    @property
    def model(self) -> str:
        return self._parts[0]

    @property
    def number(self) -> int:
        return int(self._parts[1])

    @property
    def _parts(self) -> tuple[str, str]:
        match = _VERSION.fullmatch(self.text)
        if match is None:
            raise InvalidArgument(f"{self.text!r} is not <model>@<number>")
        return match[1] or match[2], match[3]

    def faults(self) -> Iterator[FieldViolation]:
        if not _VERSION.fullmatch(self.text):
            yield FieldViolation("spec.model.version", f"{self.text!r} is not <model>@<number>")


@dataclass(frozen=True, slots=True)
class AliasRef:
    """A registry alias: "<model>:<alias>"."""

    text: str

    @property
    def model(self) -> str:
        return self.text.partition(":")[0]

    @property
    def alias(self) -> str:
        return self.text.partition(":")[2]

    def faults(self) -> Iterator[FieldViolation]:
        if not _ALIAS.fullmatch(self.text):
            yield FieldViolation("spec.model.alias", f"{self.text!r} is not <model>:<alias>")


@dataclass(frozen=True, slots=True)
class PathRef:
    """A folder or fsspec URL with a model in it."""

    text: str

    def faults(self) -> Iterator[FieldViolation]:
        if not self.text:
            yield FieldViolation("spec.model.path", "must not be empty")


ModelRef = VersionRef | AliasRef | PathRef


@dataclass(frozen=True, slots=True)
class ProblemSetRef:
    name: str
    limit: int = 0
    """The set's first so many problems; 0 means all."""
    digest: str = ""
    """"sha256:<hex>" of the problems that are measured; empty until they were loaded."""


@dataclass(frozen=True, slots=True)
class EvaluationSpec:
    model: ModelRef | None
    problems: ProblemSetRef
    samples_per_problem: int = 1
    k: tuple[int, ...] = (1,)
    temperature: float = 1.0
    max_tokens: int = 512
    seed: int = 0

    def check(self) -> None:
        """Raises InvalidArgument that names every fault there is."""
        faults = list(self._faults())
        if faults:
            raise InvalidArgument("; ".join(f"{fault.field}: {fault.description}" for fault in faults), faults)

    def with_digest(self, digest: str) -> "EvaluationSpec":
        return replace(self, problems=replace(self.problems, digest=digest))

    def _faults(self) -> Iterator[FieldViolation]:
        if self.model is None:
            yield FieldViolation("spec.model", "one of version, alias and path must be set")
        else:
            yield from self.model.faults()
        if not self.problems.name:
            yield FieldViolation("spec.problems.name", "must not be empty")
        if self.problems.limit < 0:
            yield FieldViolation("spec.problems.limit", "must not be negative")
        if not 1 <= self.samples_per_problem <= MAX_SAMPLES_PER_PROBLEM:
            yield FieldViolation("spec.samples_per_problem", f"must be 1 to {MAX_SAMPLES_PER_PROBLEM}")
        if not 1 <= self.max_tokens <= MAX_TOKENS:
            yield FieldViolation("spec.max_tokens", f"must be 1 to {MAX_TOKENS}")
        if not (math.isfinite(self.temperature) and 0 <= self.temperature <= MAX_TEMPERATURE):
            yield FieldViolation("spec.temperature", f"must be 0 to {MAX_TEMPERATURE:g}")
        for index, k in enumerate(self.k):
            if not 1 <= k <= self.samples_per_problem:
                yield FieldViolation(f"spec.k[{index}]", f"{k} is not 1 to samples_per_problem")
            elif k in self.k[:index]:
                yield FieldViolation(f"spec.k[{index}]", f"{k} comes twice")
            elif k > 1 and self.temperature == 0:
                yield FieldViolation(f"spec.k[{index}]", "pass@k above 1 needs a temperature above 0")
