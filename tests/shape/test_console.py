"""What the console's forms offer is what there is. Its lists are in JavaScript, where no import finds them."""

import re
from pathlib import Path

import pytest

import ratchet_benchmarks
import ratchet_rewards
from ratchet.gateway.v1 import experiment_pb2
from ratchet.trainer.v1 import trainer_pb2

VIEWS = Path(__file__).parents[2] / "services" / "gateway" / "src" / "gateway_service" / "console" / "views"
MEASURE = experiment_pb2.ExperimentMetric.Measure


def listed(file: str, name: str) -> set[str]:
    """The strings of `const NAME = ["a", "b"]`."""
    found = re.search(rf"const {name} = \[([^\]]*)\]", (VIEWS / file).read_text())
    assert found is not None
    return set(re.findall(r'"([^"]+)"', found[1]))


@pytest.mark.parametrize(
    ("file", "name", "there_are"),
    [
        (
            "run_form.js",
            "ALGORITHMS",
            {key.removeprefix("ALGORITHM_") for key, it in trainer_pb2.Algorithm.items() if it},
        ),
        (
            "run_form.js",
            "REWARDS",  # a name alone says no model
            {name for name, it in ratchet_rewards.COMPONENTS.items() if not it.needs_model}
            | {*ratchet_rewards.PRESETS},
        ),
        ("choices.js", "OWN_SETS", set(ratchet_benchmarks.OWN)),
        ("choices.js", "BENCHMARKS", set(ratchet_benchmarks.BENCHMARKS)),
        ("experiment_form.js", "MEASURES", {key.removeprefix("MEASURE_") for key, it in MEASURE.items() if it}),
    ],
)
def test_all_that_there_is_is_offered(file: str, name: str, there_are: set[str]) -> None:
    assert listed(file, name) == there_are
