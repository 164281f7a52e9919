"""Findings: what examination found about single problems of a version, and what people decided about it."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ratchet_kit.faults import MAX_REASON, Faults
from ratchet_kit.names import DatasetRef

MAX_SELECTED = 400
"""Characters of a field that selects findings, and of a reported reason."""
MAX_REPORTED = 10_000
"""Problems of a report."""
_MOST_IDS = 5
_MOST_PAIRS = 3
"""Number of problems that a notice shows."""


class Kind(StrEnum):
    """In the order of notices."""

    NO_REFERENCE = "no-reference"
    NO_TESTS = "no-tests"
    FORGEABLE_TESTS = "forgeable-tests"
    SECRET = "secret"
    EMAIL = "email"
    PHONE = "phone"
    NEAR_DUPLICATE = "near-duplicate"
    UNSOUND = "unsound"
    """Its reference does not pass its tests, or its tests pass any program. Examination does not find it: it runs
    nothing."""


class FindingState(StrEnum):
    OPEN = "open"
    """Nobody has decided, or somebody took a decision back."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    """The problem is to be left out of the next version."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Selects findings: empty fields select all."""

    kind: Kind | None = None
    split: str = ""
    problem: str = ""
    other_set: str = ""

    def check(self, faults: Faults) -> None:
        for field in ("split", "problem", "other_set"):
            faults.length(field, getattr(self, field), MAX_SELECTED)


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's, about the findings that `rule` selected."""

    id: str
    dataset: DatasetRef
    """The version that it was made for."""
    rule: Rule
    state: FindingState
    reason: str
    actor: str
    """Id of the API key."""
    create_time: datetime

    def check(self) -> None:
        """Raises InvalidArgument that names every field at fault."""
        faults = Faults()
        self.rule.check(faults)
        if self.rule.kind is None:
            faults.required("kind", self.rule.problem)
        if faults.required("reason", self.reason.strip()):
            faults.length("reason", self.reason, MAX_REASON)
        faults.raise_if_any()


@dataclass(frozen=True, slots=True)
class Finding:
    kind: Kind
    split: str
    problem: str
    """Its id."""
    other_set: str = ""
    """The set of the other problem of a near-duplicate, which may be its own split."""
    other: str = ""
    """Id of the first problem of that set that is nearly the same."""
    detail: str = ""
    """Where it was found, or how alike the two are."""
    other_digest: str = ""
    """Digest of the problems of `other_set`; of a benchmark the sha256 of its rows."""
    place: int = 0
    """From 1, in the version."""
    decision: Decision | None = None

    @property
    def state(self) -> FindingState:
        return self.decision.state if self.decision else FindingState.OPEN

    def is_against(self, name: str, digest: str) -> bool:
        """True if the other problem is of the set of this name or this digest. A part of a benchmark counts as the
        benchmark."""
        return self.other_digest == digest or self.other_set in (name, name.partition("/")[0].partition("@")[0])


@dataclass(frozen=True, slots=True)
class Other:
    """A set that the problems of a version are compared with."""

    name: str
    key: str
    """The digest of its problems, or the sha256 of a benchmark's rows."""
    training_alone: bool = False
    """The split for training is compared with it, and no other."""


@dataclass(frozen=True, slots=True)
class Alike:
    """The comparison of a split with other sets."""

    findings: Sequence[Finding]
    sets: int
    """Other sets that it was compared with."""
    problems: int
    """In these sets."""


_SAID = {
    Kind.NO_REFERENCE: "without a reference",
    Kind.NO_TESTS: "without tests: for SFT, or for rewards that need none",
    Kind.FORGEABLE_TESTS: "with tests that can be forged",
    Kind.SECRET: "with what looks like a key or a token",
    Kind.EMAIL: "with an e-mail address",
    Kind.PHONE: "with a phone number",
}
_NAMED = (Kind.SECRET, Kind.EMAIL, Kind.PHONE)
"""Kinds whose notices name problems."""


def notices(findings: Iterable[Finding]) -> tuple[str, ...]:
    """The findings of a split as sentences, one for each kind and other set."""
    groups: dict[tuple[Kind, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        groups[finding.kind, finding.other_set].append(finding)
    order = list(Kind)
    return tuple(_notice(*group, groups[group]) for group in sorted(groups, key=lambda group: order.index(group[0])))


def _notice(kind: Kind, other_set: str, findings: Sequence[Finding]) -> str:
    number, split = len(findings), findings[0].split
    problems = f"{number:,} problem{'s' * (number != 1)}"
    if kind is Kind.NEAR_DUPLICATE:
        shown = "; ".join(f"{it.problem} like {it.other} ({it.detail})" for it in findings[:_MOST_PAIRS])
        others = "earlier ones" if other_set == split else f"problems of {other_set}"
        more = " ..." * (number > _MOST_PAIRS)
        return f"{problems} {'is' if number == 1 else 'are'} nearly the same as {others}: {shown}{more}"
    return said(kind, "problem", [it.problem for it in findings]) if kind in _NAMED else f"{problems} {_SAID[kind]}"


def said(kind: Kind, what: str, ids: Sequence[str]) -> str:
    """A notice that names the first of them: "2 problems with a phone number: a, b"."""
    more = " ..." * (len(ids) > _MOST_IDS)
    return f"{len(ids):,} {what}{'s' * (len(ids) != 1)} {_SAID[kind]}: {', '.join(ids[:_MOST_IDS])}{more}"


def acceptances(findings: Iterable[Finding]) -> str:
    """Who accepted these near-duplicates and why, as sentences with a space in front."""
    groups: dict[tuple[Decision, str, str], set[str]] = defaultdict(set)
    for finding in findings:
        if finding.decision is not None:
            groups[finding.decision, finding.split, finding.other_set].add(finding.problem)
    return "".join(_acceptance(*group, len(problems)) for group, problems in groups.items())


def _acceptance(decision: Decision, split: str, other_set: str, number: int) -> str:
    near, by = "near-duplicate is" if number == 1 else "near-duplicates are", decision.actor or "a person without a key"
    return (
        f" {number:,} {near} not counted (problems of {decision.dataset}/{split} like problems of {other_set}): "
        f"accepted by {by} on {decision.create_time:%Y-%m-%d}, because: {decision.reason.rstrip('.')}."
    )
