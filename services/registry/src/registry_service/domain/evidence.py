"""What a gate decides on: two finished evaluations and their comparison, and whether they can judge at all."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ratchet_kit.errors import FailedPrecondition
from ratchet_kit.names import VersionRef
from ratchet_kit.statistics import Comparison, too_few
from registry_service.domain.version import Version

_NAMED = 5
"""Number of pairs that a refusal names."""


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A set of problems that an evaluation measured."""

    name: str
    digest: str

    def __str__(self) -> str:
        return f"{self.name or 'an unnamed set'} ({self.digest[:19] or 'no digest'})"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A finished evaluation as the gate sees it: which weights it measured, and on what."""

    id: str
    policy_id: str
    sets: tuple[MeasuredSet, ...]
    settings_id: str = ""
    """Config, tokenizer and chat template that it measured; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class SetComparison:
    """Candidate minus champion on one set."""

    name: str
    comparison: Comparison
    unsolved: tuple[str, ...] = ()
    """Problems that all of the champion's samples solve and none of the candidate's."""
    tampered_share: float = 0.0
    """The share of the candidate's samples."""
    trained_on: int = 0
    """Problems that the candidate was trained on."""
    selected_on: int = 0
    """Problems by which it was chosen among its run's checkpoints."""


@dataclass(frozen=True, slots=True)
class Comparisons:
    """Candidate minus champion, on each set and in the whole score. Champion as baseline."""

    whole: Comparison
    sets: tuple[SetComparison, ...]

    def of(self, name: str) -> Comparison:
        """On the set of that name; without one, of the whole score."""
        return self.whole if not name else next(one.comparison for one in self.sets if one.name == name)


@dataclass(frozen=True, slots=True)
class Evidence:
    comparisons: Comparisons
    tries: int
    """How many comparisons could have been made instead, this one included."""
    caveat: str = ""
    """The things not known, as a sentence with a space in front."""


@dataclass(frozen=True, slots=True)
class Known:
    """Problems that cannot judge a version."""

    digests: frozenset[str] = frozenset()
    """Digests of the sets of problems."""
    fingerprints: frozenset[str] = frozenset()
    """Fingerprints of the problems, where they are known: see ratchet_problems.fingerprint."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two problems that are nearly the same."""

    problem: str
    """Its id."""
    other: str
    """The id of the problem that was there before: one that was learned from, an earlier row, a benchmark's."""
    reason: str
    """Similarities: "prompt 0.83, tests 1.00"."""

    def __str__(self) -> str:
        return f"{self.problem} like {self.other} ({self.reason})"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a version, and the versions that it was made of, come from, as far as lineage says."""

    training: Known = Known()
    """The problems that they learned from."""
    selection: Known = Known()
    """By what they were chosen among the checkpoints of their runs."""
    unknown: tuple[VersionRef, ...] = ()
    """Versions of a run whose choice was not kept."""

    @property
    def caveat(self) -> str:
        """The sentence that a decision adds for it."""
        if not self.unknown:
            return ""
        return (
            f" By which problems {', '.join(map(str, self.unknown))} was chosen among the checkpoints of its run is "
            "not known: it was registered before that was kept."
        )


def check_measured(candidate: Version, measured: Evaluation, champion: Version, baseline: Evaluation) -> None:
    """Raises FailedPrecondition unless the two evaluations measured exactly these versions, on the same problems."""
    for version, evaluation in ((candidate, measured), (champion, baseline)):
        if evaluation.policy_id != version.policy_id:
            raise FailedPrecondition(
                f"evaluation {evaluation.id} measured the weights {evaluation.policy_id or 'of no known policy'}, "
                f"not those of {version.ref} ({version.policy_id})"
            )
        if evaluation.settings_id and version.settings_id and evaluation.settings_id != version.settings_id:
            raise FailedPrecondition(
                f"evaluation {evaluation.id} measured the weights of {version.ref} with another config, tokenizer or "
                f"chat template ({evaluation.settings_id}, not {version.settings_id})"
            )
    digests = [tuple(one.digest for one in evaluation.sets) for evaluation in (measured, baseline)]
    if not measured.sets or not all(digests[0]) or digests[0] != digests[1]:
        raise FailedPrecondition(
            f"evaluations {measured.id} and {baseline.id} were not made on the same problems: "
            f"{_listed(measured.sets)} against {_listed(baseline.sets)}"
        )


def check_unknown(candidate: VersionRef, judged: Iterable[MeasuredSet], origin: Origin) -> None:
    """Raises FailedPrecondition where the candidate was trained on one of the sets, or chosen by it."""
    for one in judged:
        if one.digest in origin.training.digests:
            raise FailedPrecondition(
                f"{candidate} was trained on {one.name}, so its score may be memory: measure it on problems that "
                "training never saw"
            )
        if one.digest in origin.selection.digests:
            raise FailedPrecondition(
                f"{candidate} is the best of its run's checkpoints on {one.name}, so its score there is too high; "
                f"measure it on problems by which it was not chosen"
            )


def check_apart(candidate: VersionRef, judged: MeasuredSet, trained: Sequence[Pair], selected: Sequence[Pair]) -> None:
    """Raises FailedPrecondition, with the pairs, where problems of the set are nearly the same as some that the
    candidate was trained on or chosen by."""
    for pairs, known in ((trained, "was trained on"), (selected, "was chosen among its run's checkpoints by")):
        if pairs:
            number = f"{len(pairs)} problem{'s' * (len(pairs) > 1)} of {judged.name} or nearly the same ones"
            more = f", and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
            shown = "; ".join(map(str, pairs[:_NAMED]))
            raise FailedPrecondition(
                f"{candidate} {known} {number}: {shown}{more}. Measure it on other problems, leave these "
                "out of what is learned from, or accept what is another task: ratchet data findings"
            )


def check_judgeable(candidate: VersionRef, comparisons: Comparisons, judged: Sequence[MeasuredSet]) -> None:
    """Raises FailedPrecondition where a set that is judged by is too small, or shares problems with what the candidate
    was trained on or chosen by."""
    names = {one.name for one in judged}
    for one in comparisons.sets:
        if one.name not in names:
            continue
        of_all = f"of the {one.comparison.problems} problems of {one.name}"
        if one.trained_on:
            raise FailedPrecondition(
                f"{candidate} was trained on {one.trained_on} {of_all}; measure it on problems that training never saw"
            )
        if one.selected_on:
            raise FailedPrecondition(
                f"{candidate} was chosen among its run's checkpoints by {one.selected_on} {of_all}, so its score there "
                f"is too high; measure it on problems by which it was not chosen"
            )
        if fault := too_few(one.comparison.clusters):
            raise FailedPrecondition(f"{one.name} {fault}")


def _listed(sets: Sequence[MeasuredSet]) -> str:
    return ", ".join(map(str, sets)) or "nothing"
