"""A version of a data set as one HTML page: its card and balance, what examination found, with the problems side by
side, what people decided, and how its references ran."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from ratchet.registry.v1 import dataset_pb2 as pb
from ratchet_client import Client
from ratchet_client.names import state_name
from ratchet_reports import page, pictures
from ratchet_reports.document import Spread
from ratchet_reports.drawing import svg

MOST_FINDINGS = 20_000
"""Findings that are read; the notices of a split count all of them."""
MOST_SHOWN = 10
"""Findings of a kind, a split and another set whose problems are shown."""
MOST_BARS = 15
MIB = 1 << 20

Texts = Callable[[str, Collection[str]], Mapping[str, str]]
"""Gives the problems of a set ("train" is a split of this version) by their ids, as texts; those that it knows."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A finding, and its problems as texts; empty where they are not known here."""

    problem: str
    other: str
    detail: str
    state: str
    text: str
    other_text: str


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of a kind in a split; near-duplicates of one other set."""

    title: str
    count: int
    states: str
    """ "3 open, 1 accepted"."""
    shown: Sequence[Shown]


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and how many findings here it is about."""

    state: str
    findings: str
    """ "2 of near-duplicate like mbpp in train"."""
    reason: str
    actor: str
    date: str
    dataset: str


@dataclass(frozen=True, slots=True)
class DatasetReport:
    title: str
    facts: Mapping[str, str]
    splits: Sequence[pb.DatasetSplit]
    groups: Sequence[Group]
    decisions: Sequence[Decided]
    is_cut: bool
    """There are more findings than MOST_FINDINGS."""


def gather(client: Client, dataset: pb.Dataset, texts: Texts) -> DatasetReport:
    """Raises ApiError, Unreachable, and what `texts` raises."""
    read = list(islice(client.datasets.findings(dataset.name, dataset.number), MOST_FINDINGS + 1))
    findings = read[:MOST_FINDINGS]
    return DatasetReport(
        f"{dataset.name}@{dataset.number}",
        _facts(dataset),
        list(dataset.splits),
        list(_groups(findings, texts)),
        _decisions(findings),
        len(read) > len(findings),
    )


def write(report: DatasetReport, path: Path) -> None:
    """Raises OSError when it cannot be written."""
    page.render(
        "dataset.html",
        path,
        report=report,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        balance=_balance(report.splits),
        runs=_runs(report.splits),
        proposals=list(_proposals(report.splits)),
        shown=MOST_SHOWN,
    )


def _facts(dataset: pb.Dataset) -> Mapping[str, str]:
    card = dataset.card
    made = f"{dataset.create_time.ToDatetime():%Y-%m-%d}{f' by {dataset.actor}' if dataset.actor else ''}"
    facts = {
        "state": ": ".join(filter(None, (state_name(dataset), dataset.failure.message))),
        "description": card.description,
        "source": card.source,
        "licence": card.licence or "none said",
        "made of": card.made_of or "files",
        "created": made,
        "used": f"{dataset.uses} times, {dataset.last_user} the last" if dataset.uses else "never",
    }
    return {name: value for name, value in facts.items() if value}


def _kind(finding: pb.Finding) -> str:
    return pb.Finding.Kind.Name(finding.kind).removeprefix("KIND_").replace("_", "-").lower()


def _state(finding: pb.Finding) -> str:
    return pb.Finding.State.Name(finding.state).removeprefix("STATE_").lower()


def _groups(findings: Iterable[pb.Finding], texts: Texts) -> Iterator[Group]:
    groups: dict[tuple[int, str, str], list[pb.Finding]] = {}
    wanted: dict[str, set[str]] = {}
    for finding in findings:
        group = groups.setdefault((finding.kind, finding.split, finding.other_set), [])
        group.append(finding)
        if len(group) <= MOST_SHOWN:
            wanted.setdefault(finding.split, set()).add(finding.problem)
            wanted.setdefault(finding.other_set, set()).add(finding.other)
    known = {name: texts(name, ids) if name else {} for name, ids in wanted.items()}
    for key in sorted(groups):
        found, (_, split, other_set) = groups[key], key
        like = "" if not other_set else " like earlier ones" if other_set == split else f" like problems of {other_set}"
        shown = [
            Shown(
                one.problem,
                one.other,
                one.detail,
                _state(one),
                known[split].get(one.problem, ""),
                known[other_set].get(one.other, ""),
            )
            for one in found[:MOST_SHOWN]
        ]
        states = ", ".join(f"{count:,} {state}" for state, count in Counter(map(_state, found)).items())
        yield Group(f"{split}: {_kind(found[0])}{like}", len(found), states, shown)


def _decisions(findings: Iterable[pb.Finding]) -> Sequence[Decided]:
    counts: Counter[tuple[str, ...]] = Counter()
    for finding in findings:
        if finding.HasField("decision"):
            by = finding.decision
            like = f" like {finding.other_set}" if finding.other_set else ""
            of = f"{_kind(finding)}{like} in {finding.split}"
            date = f"{by.create_time.ToDatetime():%Y-%m-%d}"
            counts[_state(finding), of, by.reason, by.actor or "-", date, by.dataset] += 1
    return [
        Decided(state, f"{count:,} of {of}", reason, actor, date, dataset)
        for (state, of, reason, actor, date, dataset), count in counts.items()
    ]


def _balance(splits: Iterable[pb.DatasetSplit]) -> Sequence[Markup]:
    """Lengths and tests of all splits together, then what the problems of each are about."""
    found = [split for split in splits if split.HasField("balance")]
    spreads = {
        "characters of a prompt": [(one.name, one.rows, one.balance.prompt) for one in found],
        "characters of a reference": [
            (one.name, one.rows, one.balance.reference) for one in found if one.balance.HasField("reference")
        ],
        "tests of a problem": [(one.name, one.rows, one.balance.tests) for one in found],
    }
    drawn = [_spreads(quantity, rows) for quantity, rows in spreads.items() if rows]
    for split in found:
        for what, counts in (
            ("tag", split.balance.tags),
            ("difficulty", split.balance.difficulties),
            ("language", split.balance.languages),
        ):
            rows = [(one.name, one.problems) for one in counts[:MOST_BARS]]
            if rows and (what != "language" or len(rows) > 1):
                more = f", the {MOST_BARS} most frequent" * (len(counts) > MOST_BARS)
                title = f"problems of {split.name} by {what}{more}"
                drawn.append(svg(pictures.bars(rows, title), title))
    return drawn


def _runs(splits: Iterable[pb.DatasetSplit]) -> Sequence[Markup]:
    ran = [split for split in splits if split.HasField("references")]
    seconds = [
        (one.name, one.references.problems, one.references.cpu_time)
        for one in ran
        if one.references.HasField("cpu_time")
    ]
    memory = [
        (one.name, one.references.problems, _scaled(one.references.memory_bytes, 1 / MIB))
        for one in ran
        if one.references.HasField("memory_bytes")
    ]
    drawn = {"CPU seconds of a reference": seconds, "MiB of memory of a reference": memory}
    return [_spreads(quantity, rows) for quantity, rows in drawn.items() if rows]


def _proposals(splits: Iterable[pb.DatasetSplit]) -> Iterator[Sequence[str]]:
    """Split, references that pass, in the shared kind, limits."""
    for split in splits:
        if not split.HasField("references"):
            continue
        found = split.references
        limits = [f"{found.cpu_time_limit.seconds} s of CPU time"] if found.HasField("cpu_time_limit") else []
        limits += [f"{found.memory_limit_bytes // MIB} MiB"] if found.memory_limit_bytes else []
        passed = f"{found.strict + found.shared:,} of {found.problems:,}"
        yield split.name, passed, f"{found.shared:,}", ", ".join(limits) or "-"


def _scaled(of: pb.Quantiles, factor: float) -> pb.Quantiles:
    return pb.Quantiles(**{field.name: value * factor for field, value in of.ListFields()})


def _spreads(quantity: str, rows: Sequence[tuple[str, int, pb.Quantiles]]) -> Markup:
    found = [(name, Spread(count, q.median, q.p5, q.p25, q.median, q.p75, q.p95)) for name, count, q in rows]
    return svg(pictures.spreads(quantity, found, of=""), quantity)
