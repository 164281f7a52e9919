"""Verl is told what overrides.txt says, for each algorithm and each hyperparameter that is chosen. What is added,
a new algorithm or hyperparameter, needs no line. Delete the file, and the test writes it anew."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from trainer_service.domain.spec.algorithms import ALGORITHMS
from trainer_service.domain.spec.hyperparameters import Hyperparameters
from trainer_service.job.run.config import JobConfig
from trainer_service.verl.config import dpo_overrides, reward_model_overrides, rl_overrides, sft_overrides

KEPT = Path(__file__).with_name("overrides.txt")
VALUES = {"float": 0.125, "int": 4, "bool": True, "str": "cosine"}
"""Another value than any default, by the kind of the hyperparameter."""


class Line(NamedTuple):
    hyperparameter: str
    override: str
    algorithm: str


def overrides(job: JobConfig) -> list[str]:
    row = job.algorithm
    if row.is_online:
        return rl_overrides(job, None)
    if row.takes_examples:
        return sft_overrides(job, None)
    return reward_model_overrides(job, None) if row.makes_reward_model else dpo_overrides(job, None)


BESIDE: dict[str, dict[str, Any]] = {"kl_in_reward": {"kl_coefficient": 0.125}, "lora_alpha": {"lora_rank": 4}}
"""Hyperparameters that another has no effect without."""


def told(make_job: Any, make_complete_spec: Any) -> Iterator[Line]:
    """What verl is told of each algorithm ("-"), and what else of it with each hyperparameter."""
    for algorithm, row in ALGORITHMS.items():

        def of(chosen: dict[str, Any], algorithm: str = algorithm) -> set[str]:
            """The last of each setting's overrides, which is the one that holds."""
            job = make_job(make_complete_spec(algorithm=algorithm, hyperparameters=Hyperparameters(**chosen)))
            work = str(job.work_dir.parent)
            return set({one.partition("=")[0].lstrip("+"): one.replace(work, "") for one in overrides(job)}.values())

        yield from (Line("-", one, algorithm) for one in of({}))
        for field in fields(Hyperparameters):
            name, beside = field.name, BESIDE.get(field.name, {})
            if {name, *beside} <= row.applicable:
                value = VALUES[str(field.type).partition(" ")[0]]
                yield from (Line(name, one, algorithm) for one in of({**beside, name: value}) - of(beside))


def test_verl_is_told_what_the_file_says(make_job: Any, make_complete_spec: Any) -> None:
    found = list(told(make_job, make_complete_spec))
    if not KEPT.exists():
        algorithms: dict[tuple[str, str], list[str]] = defaultdict(list)
        for line in found:
            algorithms[line.hyperparameter, line.override].append(line.algorithm)
        KEPT.write_text("".join(f"{name}\t{one}\t{' '.join(of)}\n" for (name, one), of in sorted(algorithms.items())))
    kept = [line.split("\t") for line in KEPT.read_text().splitlines()]
    lines = {Line(name, one, algorithm) for name, one, of in kept for algorithm in of.split()}
    assert len(lines) > 1000
    assert lines - set(found) == set()
