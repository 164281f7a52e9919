"""The plan of a study, as a YAML file says it.

system: "..."      the system message of runs and evaluations, where they name none; chat_template: mine.jinja, too
train: {...}       of a RunSpec: the run that all others differ from
seeds: 5           or a list: each variant is trained with each seed
vary: {...}        axes, which are crossed: field: [values], or name: {label: {fields}}
search: {...}      ranges instead of axes, and what ends the search
evaluate: {...}    of an EvaluationSpec: what each result is measured on
at_once: 1
"""

import itertools
import math
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from ratchet.common.v1 import model_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.names import model_name
from ratchet_workflows.notation.fields import OF_ALL, Source
from ratchet_workflows.notation.references import model_ref
from ratchet_workflows.studies.ranges import Range, Search, read_search

SECTIONS = ("train", "seeds", "vary", "search", "evaluate", "at_once", *OF_ALL)
REQUIRED = {"train": "say how it is trained", "evaluate": "say what the results are measured on"}
OF_STUDY = {"seed": "seeds"}
"""Fields of a run that the study has its own for."""
WHOLE = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
MAX_RUNS = 1_000
MAX_SEED = 2**32 - 1
AS_WRITTEN = "as written"
"""The name of the variant of a study that varies nothing."""
DEFAULT = "default"
"""The name of what a search is to beat: the run as the file has it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A setting that is trained, with each seed."""

    name: str
    spec: trainer_pb2.RunSpec

    def run_of(self, seed: int, bases: Mapping[str, str]) -> trainer_pb2.RunSpec:
        """`bases`: what names of bases meant when the study began, "starter" -> "starter@1"."""
        spec = trainer_pb2.RunSpec()
        spec.CopyFrom(self.spec)
        spec.seed = seed
        if not spec.display_name:
            spec.display_name = f"{self.name}, seed {seed}"[:200]
        if version := bases.get(model_name(spec.base)):
            spec.base.CopyFrom(model_ref(version))
        return spec


class Plan:
    """A study as its file has it."""

    def __init__(self, source: Source) -> None:
        """Raises UsageError for what is not a field, is no value of one, or is missing."""
        fields = source.fields()
        for name in fields:
            if name not in SECTIONS:
                raise source.unknown("", name, SECTIONS)
        for name, reason in REQUIRED.items():
            if name not in fields:
                raise source.wrong(name, f"is missing: {reason}")
        self._source = source
        self._train: Mapping[str, Any] = fields["train"]
        self.train = source.fill(trainer_pb2.RunSpec(), self._train, "train", without=OF_STUDY)
        self.evaluate = source.fill(
            eval_pb2.EvaluationSpec(), fields["evaluate"], "evaluate", without=("model", "imported_samples")
        )
        source.put_into_all(self.train, self.evaluate)
        if self.train.base.WhichOneof("ref") is None:
            raise source.wrong("train.base", "is missing: name the model that is trained")
        self.at_once = source.whole_number(fields.get("at_once", 1), "at_once", 1, 64)
        self.search: Search | None = None
        if "search" in fields:
            if "vary" in fields:
                raise source.wrong("vary", "and search: a study has one of them")
            search = read_search(source, fields["search"])
            self.search = replace(search, ranges={path: self._range(path, one) for path, one in search.ranges.items()})
            if self.search.asha and not self.train.validate_every:
                raise source.wrong("search.asha", "needs train.validate_every: it goes by validation scores")
        self.seeds = _seeds(source, fields.get("seeds", 1), first=1 if self.search and "seeds" in fields else 0)
        self.variants = [] if self.search else self._crossed(fields.get("vary", {}))

    @property
    def sets(self) -> list[str]:
        """The names of the sets that are measured or trained on."""
        named = (self.train.problems, self.train.validation_problems, self.evaluate.problems)
        return [one.name for one in named if one.name]

    def trial(self, settings: Mapping[str, object]) -> Variant:
        name = ", ".join(f"{path.rpartition('.')[2]} {shown(value)}" for path, value in settings.items())
        return self.variant(name, settings)

    def evaluation_of(self, model: model_pb2.ModelRef) -> eval_pb2.EvaluationSpec:
        spec = eval_pb2.EvaluationSpec()
        spec.CopyFrom(self.evaluate)
        spec.model.CopyFrom(model)
        return spec

    def variant(self, name: str, changes: Mapping[str, object]) -> Variant:
        """The run of `train` with other values of some fields: "hyperparameters.learning_rate" -> its value."""
        data = deepcopy(dict(self._train))
        for path, value in changes.items():
            self._put(data, path, value)
        spec = self._source.fill(trainer_pb2.RunSpec(), data, "train")
        self._source.put_into_all(spec)
        return Variant(name, spec)

    def _crossed(self, axes: Any) -> list[Variant]:
        """Each value of each axis with each of the others, the first axis slowest."""
        if not isinstance(axes, Mapping):
            raise self._source.wrong("vary", "must be fields with their values (field: [value, value])")
        of_axes = [self._axis(str(name), values) for name, values in axes.items()]
        if not of_axes:
            return [self.variant(AS_WRITTEN, {})]
        runs = math.prod(map(len, of_axes)) * len(self.seeds)
        if runs > MAX_RUNS:  # a few lines make billions
            raise self._source.wrong("vary", f"makes {runs} runs; {MAX_RUNS} are allowed")
        return [
            self.variant(", ".join(name for name, _ in point), {k: v for _, one in point for k, v in one.items()})
            for point in itertools.product(*of_axes)
        ]

    def _axis(self, name: str, values: Any) -> list[tuple[str, Mapping[str, object]]]:
        """The points of an axis: their names, and the fields that each changes."""
        path = f"vary.{name}"
        if isinstance(values, Mapping) and values:
            points: list[tuple[str, Mapping[str, object]]] = []
            for label, fields in values.items():
                changes = _flat(fields) if isinstance(fields, Mapping) else None
                if changes is None:
                    raise self._source.wrong(f"{path}.{label}", "must be fields with values (name: value)")
                self._check_fields(fields, f"{path}.{label}")
                points.append((str(label), changes))
            return points
        if not isinstance(values, list) or not values:
            raise self._source.wrong(path, "must be a list of values, or labels with the fields that each changes")
        self._check_path("vary", name)
        last = name.rpartition(".")[2]
        for value in values:
            self._check_fields(_nested(name, value), "vary")
        if len({str(value) for value in values}) < len(values):
            raise self._source.wrong(path, "has a value twice")
        return [(f"{last} {shown(value)}", {name: value}) for value in values]

    def _range(self, path: str, of: Range) -> Range:
        """Raises UsageError for ends or choices that the field cannot have."""
        field = self._check_path("search.ranges", path)
        if of.kind != "choice" and field.cpp_type in WHOLE:
            of = replace(of, whole=True, low=math.ceil(of.low), high=math.floor(of.high))
        for value in of.choices or (of.low, of.high):
            self._check_fields(_nested(path, value), "search.ranges")
        return of

    def _check_path(self, section: str, path: str) -> FieldDescriptor:
        """Raises UsageError for a path that leads to no field of a run."""
        message = trainer_pb2.RunSpec.DESCRIPTOR
        so_far = section
        field: Any = None
        for part in path.split("."):
            known = [] if message is None else list(message.fields_by_name)
            if path in OF_STUDY:
                raise self._source.wrong(f"{section}.{path}", f"is said by {OF_STUDY[part]}")
            if part not in known:
                raise self._source.unknown(so_far, part, known or ["none below it"])
            so_far = f"{so_far}.{part}"
            field = message.fields_by_name[part]
            message = field.message_type
        found: FieldDescriptor = field
        return found

    def _check_fields(self, fields: Mapping[str, Any], where: str) -> None:
        self._source.fill(trainer_pb2.RunSpec(), fields, where, without=OF_STUDY)

    def _put(self, data: dict[str, Any], path: str, value: object) -> None:
        """Into the fields as the file has them, so that lists and texts are replaced whole."""
        *parents, last = path.split(".")
        for place, part in enumerate(parents):
            inner = data.setdefault(part, {})
            if not isinstance(inner, Mapping):
                parent = ".".join(parents[: place + 1])
                raise self._source.wrong(f"train.{parent}", f"must be fields with values, for {path} to vary")
            data[part] = inner = dict(inner)
            data = inner
        data[last] = value


def _seeds(source: Source, value: Any, first: int) -> list[int]:
    """`seeds: 3` are 0, 1, 2; of a search 1, 2, 3, since its trials have seed 0."""
    if not isinstance(value, list):
        return list(range(first, first + source.whole_number(value, "seeds", 1, MAX_RUNS)))
    seeds = [source.whole_number(one, f"seeds[{place}]", 0, MAX_SEED) for place, one in enumerate(value)]
    if not seeds or len(set(seeds)) < len(seeds):
        raise source.wrong("seeds", "must be a number of seeds, or a list of different ones")
    return seeds


def _flat(fields: Mapping[Any, Any], above: str = "") -> dict[str, object]:
    """{a: {b: 1}} as {"a.b": 1}; lists and texts stay whole, and so does what is empty: `curriculum: {}`."""
    found: dict[str, object] = {}
    for name, value in fields.items():
        path = f"{above}.{name}" if above else str(name)
        found |= _flat(value, path) if isinstance(value, Mapping) and value else {path: value}
    return found


def _nested(path: str, value: object) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _nested(rest, value) if rest else value}


def shown(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
