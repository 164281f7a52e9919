"""The findings of a study: of each run, of each variant over its seeds, and of variants against the first. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.statistics import Estimate, estimate_from_proto, mean_of_runs
from ratchet_workflows.studies.cells import Cell


@dataclass(frozen=True, slots=True)
class Point:
    """The score of a run after a step; step 0 is its base."""

    step: int
    tokens: int
    reward: float | None
    """The score; for an algorithm that learns from examples, minus the loss."""
    validation: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """One run."""

    variant: str
    seed: int
    run: str
    evaluation: str
    fault: str
    """Why it has no score; empty where it has one."""
    stopped_early: bool
    pass_at_1: Estimate | None
    """On the held-out problems, with its 95 % interval over them."""
    validation: float | None
    """The best."""
    steps: int
    tokens: int
    ended_by: str
    """ "tokens" or "steps"; empty where it has not done all."""
    seconds: float
    """From the start of its job to its end."""
    memory_bytes: int
    """At the peak of training."""
    points: Sequence[Point]

    @classmethod
    def of(cls, cell: Cell) -> "Result":
        run = cell.run or trainer_pb2.Run()
        scores = [row.estimate for row in (cell.evaluation.pass_at_k if cell.evaluation else ()) if row.k == 1]
        points = _points(cell.steps)
        seconds = (run.end_time.ToMilliseconds() - run.start_time.ToMilliseconds()) / 1e3 if run.end_time.seconds else 0
        by_tokens = run.spec.HasField("max_tokens") and run.tokens >= run.spec.max_tokens
        return cls(
            variant=cell.variant.name,
            seed=cell.seed,
            run=run.id,
            evaluation=cell.evaluation.id if cell.evaluation else "",
            fault=cell.fault,
            stopped_early=cell.stopped_early,
            pass_at_1=estimate_from_proto(scores[0]) if scores and cell.has_ended and not cell.fault else None,
            validation=max((one.validation for one in points if one.step and one.validation is not None), default=None),
            steps=run.step,
            tokens=run.tokens,
            ended_by="" if not cell.is_trained else "tokens" if by_tokens else "steps",
            seconds=seconds,
            memory_bytes=int(max((step.metrics.get("memory_bytes_max", 0) for step in cell.steps), default=0)),
            points=points,
        )

    @classmethod
    def of_json(cls, said: Mapping[str, Any], steps: Callable[[str], Sequence[trainer_pb2.Step]]) -> "Result":
        points = _points(list(steps(said["run"]))) if said["run"] else []
        whole = {name: int(said[name]) for name in ("seed", "steps", "tokens", "memory_bytes")}
        return cls(**{**said, **whole, "points": points, "pass_at_1": _estimate(said["pass_at_1"])})


def _estimate(said: Mapping[str, float] | None) -> Estimate | None:
    return Estimate(**said) if said else None


def _points(steps: Sequence[trainer_pb2.Step]) -> list[Point]:
    points = []
    if steps and "base_score" in steps[0].metrics:
        points.append(Point(0, 0, None, steps[0].metrics["base_score"]))
    for step in steps:
        metrics = dict(step.metrics)
        loss = -metrics["loss"] if "loss" in metrics else None
        reward = metrics.get("reward_mean", loss)
        tokens = int(metrics.get("tokens_total", 0))
        points.append(Point(step.number, tokens, reward, metrics.get("validation_score")))
    return points


@dataclass(frozen=True, slots=True)
class Summary:
    """A variant over its seeds."""

    name: str
    runs: int
    """The number of those in `wanted` that have a score."""
    wanted: int
    pass_at_1: float | None
    """The mean over seeds."""
    band: Estimate | None
    """With its 95 % interval: `over_seeds`."""
    difference: Estimate | None
    """Minus the first variant, of seeds that both have, with its 95 % interval: `over_seeds`."""
    tokens: float
    """Means over the runs that have a score."""
    steps: float
    seconds: float
    """The median: one run in five that waited for the machine says nothing of the others."""
    memory_bytes: int
    """The most of any."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How many tokens a variant takes to a validation score."""

    name: str
    tokens: Mapping[int, int | None]
    """By seed: trained on by the first validation that has the score; None where none has it."""
    mean: float | None
    """Seeds that come to it."""
    band: Estimate | None
    """With its 95 % interval over seeds; None unless two seeds or more, and all of them, come to it."""
    difference: Estimate | None
    """Minus the first variant, of seeds that both have, with its 95 % interval; None as `band`."""

    @property
    def reached(self) -> int:
        """Seeds that come to it."""
        return sum(tokens is not None for tokens in self.tokens.values())


@dataclass(frozen=True, slots=True)
class Reaches:
    score: float
    """The mean over its seeds of the last validation of the first variant."""
    variants: Sequence[Reach]


@dataclass(frozen=True, slots=True)
class StudyResults:
    title: str
    create_time: str
    """ISO 8601, UTC."""
    results: Sequence[Result]
    summaries: Sequence[Summary]
    reaches: Reaches | None
    """None where there is one variant, or no validation."""
    settings: Mapping[str, str]
    notes: Sequence[str] = ()
    trials: Sequence[Mapping[str, Any]] = ()
    """Each setting that a search tried, with its result."""
    verdict: str = ""
    """A search's answer whether a setting beats the default."""

    def of(self, variant: str) -> list[Result]:
        return [one for one in self.results if one.variant == variant]

    def to_json(self, *, points: bool = True) -> dict[str, Any]:
        """`points`: those of the curves, too, which are many."""
        said = asdict(self)
        return said if points else said | {"results": [one | {"points": []} for one in said["results"]]}

    @classmethod
    def of_json(cls, said: Mapping[str, Any], steps: Callable[[str], Sequence[trainer_pb2.Step]]) -> "StudyResults":
        """`steps`: those of a run, by its id."""
        results = [Result.of_json(one, steps) for one in said["results"]]
        return cls(**{**said, "results": results, "summaries": summaries(results), "reaches": reaches(results)})


def summaries(results: Sequence[Result]) -> list[Summary]:
    """In the order of the results. The first variant is what the others are compared with."""
    variants = by_variant(results)
    baseline = next(iter(variants), "")
    return [_summary(name, of, variants[baseline] if name != baseline else ()) for name, of in variants.items()]


def by_variant(results: Sequence[Result]) -> dict[str, list[Result]]:
    """In the order of the results."""
    found: dict[str, list[Result]] = {}
    for one in results:
        found.setdefault(one.variant, []).append(one)
    return found


def _summary(name: str, results: Sequence[Result], baseline: Sequence[Result]) -> Summary:
    scored = [one for one in results if one.pass_at_1]
    values = _scores(results)

    def mean(of: Sequence[float]) -> float:
        return fmean(of) if of else 0.0

    return Summary(
        name=name,
        runs=len(scored),
        wanted=len(results),
        pass_at_1=fmean(values.values()) if values else None,
        band=over_seeds(list(values.values())),
        difference=paired(baseline, results),
        tokens=mean([one.tokens for one in scored]),
        steps=mean([one.steps for one in scored]),
        seconds=median([one.seconds for one in scored]) if scored else 0.0,
        memory_bytes=max((one.memory_bytes for one in scored), default=0),
    )


def paired(baseline: Sequence[Result], candidate: Sequence[Result]) -> Estimate | None:
    """Candidate minus baseline in pass@1, seed by seed: what a seed makes easy or hard for both is no difference.
    As `over_seeds`, of the seeds that have both scores."""
    before, after = _scores(baseline), _scores(candidate)
    differences = [after[seed] - before[seed] for seed in before if seed in after]
    return over_seeds(differences)


def over_seeds(values: Sequence[float]) -> Estimate | None:
    """The mean with its 95 % interval. None below two values, and where all are the same: that seeds agree by chance,
    on a few problems, says nothing of how far others would be from them."""
    return mean_of_runs(values) if len(set(values)) > 1 else None


def _scores(results: Sequence[Result]) -> dict[int, float]:
    return {one.seed: one.pass_at_1.value for one in results if one.pass_at_1}


def reaches(results: Sequence[Result]) -> Reaches | None:
    """None where there is one variant, or where the first one was not validated."""
    variants = {name: [one for one in of if not one.fault] for name, of in by_variant(results).items()}
    first = next(iter(variants.values()), [])
    ends = [scores[-1] for one in first if (scores := _validations(one.points))]
    if len(variants) < 2 or not ends:
        return None
    score = fmean(ends)
    baseline = {one.seed: tokens_to(one.points, score) for one in first}
    found = [_reach(name, of, score, baseline if place else {}) for place, (name, of) in enumerate(variants.items())]
    return Reaches(score, found)


def tokens_to(points: Sequence[Point], score: float) -> int | None:
    """Trained on by the first validation that is so high; 0 where the base is. None where none is."""
    return next((one.tokens for one in points if one.validation is not None and one.validation >= score), None)


def _reach(name: str, results: Sequence[Result], score: float, baseline: Mapping[int, int | None]) -> Reach:
    """`baseline`: of the first variant, which has none itself."""
    tokens = {one.seed: tokens_to(one.points, score) for one in results}
    reached = [float(one) for one in tokens.values() if one is not None]
    pairs = [(tokens[seed], before) for seed, before in baseline.items() if seed in tokens]
    differences = [float(after - before) for after, before in pairs if after is not None and before is not None]
    return Reach(
        name=name,
        tokens=tokens,
        mean=fmean(reached) if reached else None,
        band=_band(reached, len(tokens)),
        difference=_band(differences, len(pairs)),
    )


def _band(values: Sequence[float], wanted: int) -> Estimate | None:
    return over_seeds(values) if len(values) == wanted else None


def _validations(points: Sequence[Point]) -> list[float]:
    return [one.validation for one in points if one.step and one.validation is not None]
