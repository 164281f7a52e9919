"""The sums of what runs and evaluations have used, by key, version or study."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_client.names import measured_name, model_name, version_name
from ratchet_kit.usage import Usage, usage_from_proto

Work = trainer_pb2.Run | eval_pb2.Evaluation


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    runs: int = 0
    evaluations: int = 0
    usage: Usage = field(default_factory=Usage)

    def plus(self, work: Work) -> "Account":
        is_run = isinstance(work, trainer_pb2.Run)
        usage = self.usage + usage_from_proto(work.usage)
        return Account(self.name, self.runs + is_run, self.evaluations + (not is_run), usage)


def accounts(works: Iterable[Work], by: str) -> list[Account]:
    """One for each key, version, study, or piece of work, as `by` of GROUPS says, the dearest first; without prices
    the one with most time of GPUs, then of processors. Raises KeyError for another `by`."""
    name = GROUPS[by]
    found: dict[str, Account] = {}
    for work in works:
        key = name(work) or "-"
        found[key] = found.get(key, Account(key)).plus(work)
    return sorted(found.values(), key=_weight, reverse=True)


def total(each: Sequence[Account]) -> Account:
    return Account(
        "together",
        sum(one.runs for one in each),
        sum(one.evaluations for one in each),
        sum((one.usage for one in each), Usage()),
    )


def _weight(one: Account) -> tuple[float, ...]:
    return (one.usage.cost or 0.0, one.usage.gpu_time.total_seconds(), one.usage.cpu_time.total_seconds())


def _version(work: Work) -> str:
    """The version that a run made, or else its base; the one that was measured."""
    if isinstance(work, eval_pb2.Evaluation):
        return measured_name(work)
    return version_name(work.version) or model_name(work.spec.base)


def _study(work: Work) -> str:
    """The runs of a study differ by their seeds alone ("night, seed 3")."""
    return work.spec.display_name.partition(", seed ")[0]


GROUPS: Mapping[str, Callable[[Work], str]] = {
    "key": lambda work: work.actor,
    "version": _version,
    "study": _study,
    "work": lambda work: work.id,
}
