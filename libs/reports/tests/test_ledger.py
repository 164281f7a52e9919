"""What runs and evaluations have used, summed by whom or for what."""

from datetime import timedelta

import pytest
from google.protobuf.duration_pb2 import Duration

from ratchet.common.v1 import model_pb2, usage_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet.trainer.v1 import trainer_pb2
from ratchet_reports.ledger import Work, accounts, total

SECOND = model_pb2.VersionRef(model="starter", number=2)


def used(cost: float | None, cpu: int) -> usage_pb2.Usage:
    return usage_pb2.Usage(cost=cost, currency="EUR" if cost is not None else "", cpu_time=Duration(seconds=cpu))


MEASURED = eval_pb2.EvaluationSpec(model=model_pb2.ModelRef(version=SECOND))
WORKS: list[Work] = [
    trainer_pb2.Run(id="run_1", actor="key_1", version=SECOND, usage=used(2.0, 100)),
    trainer_pb2.Run(
        id="run_2", actor="key_2", usage=used(0.5, 10), spec=trainer_pb2.RunSpec(display_name="night, seed 1")
    ),
    trainer_pb2.Run(
        id="run_3", actor="key_2", usage=used(1.0, 10), spec=trainer_pb2.RunSpec(display_name="night, seed 2")
    ),
    eval_pb2.Evaluation(id="eval_1", actor="key_1", version=SECOND, usage=used(0.25, 5), spec=MEASURED),
]


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("key", {"key_1": (1, 1, 2.25), "key_2": (2, 0, 1.5)}),
        ("version", {"starter@2": (1, 1, 2.25), "-": (2, 0, 1.5)}),
        ("study", {"night": (2, 0, 1.5), "-": (1, 1, 2.25)}),
        ("work", {"run_1": (1, 0, 2.0), "run_2": (1, 0, 0.5), "run_3": (1, 0, 1.0), "eval_1": (0, 1, 0.25)}),
    ],
)
def test_each_has_an_account_and_the_dearest_comes_first(by: str, named: dict[str, tuple[int, int, float]]) -> None:
    found = accounts(WORKS, by)
    assert {one.name: (one.runs, one.evaluations, one.usage.cost) for one in found} == named
    costs = [one.usage.cost or 0.0 for one in found]
    assert costs == sorted(costs, reverse=True)
    whole = total(found)
    assert (whole.runs, whole.evaluations, whole.usage.cost) == (3, 1, 3.75)
    assert whole.usage.cpu_time == timedelta(seconds=125)


def test_without_prices_the_processors_decide() -> None:
    works: list[Work] = [trainer_pb2.Run(id=f"run_{cpu}", usage=used(None, cpu)) for cpu in (1, 3, 2)]
    found = accounts(works, "work")
    assert [one.name for one in found] == ["run_3", "run_2", "run_1"]
    assert total(found).usage.cost is None
