from datetime import timedelta

import pytest

from ratchet.common.v1 import usage_pb2 as pb
from ratchet.trainer.v1 import trainer_pb2
from ratchet_kit.times import duration_to_proto
from ratchet_reports import run_words, usage_words


def usage(cost: float | None = None) -> pb.Usage:
    return pb.Usage(
        gpu_time=duration_to_proto(timedelta(minutes=54)),
        cpu_time=duration_to_proto(timedelta(minutes=12, seconds=3)),
        sandbox_time=duration_to_proto(timedelta(seconds=8)),
        prompt_tokens=12_000,
        completion_tokens=34_000,
        wall_time=duration_to_proto(timedelta(hours=2)),
        wait_time=duration_to_proto(timedelta(minutes=36)),
        cost=cost,
        currency="EUR" if cost is not None else "",
    )


def test_usage_is_said_in_its_units():
    assert usage_words.used(usage()) == (
        "0.90 GPU-hours, 12 min 3 s of CPU, 8 s of CPU in the sandbox, 12,000 tokens in, 34,000 out"
    )
    assert usage_words.waiting(usage()) == "30% of 2 h 0 min waiting for samples"
    watched = usage()
    watched.gpu_watched_time.FromTimedelta(timedelta(minutes=50))
    assert "0.90 GPU-hours (0% busy), " in usage_words.used(watched)
    watched.gpu_busy_time.FromTimedelta(timedelta(minutes=31))
    assert "0.90 GPU-hours (62% busy), " in usage_words.used(watched)
    assert (usage_words.used(pb.Usage()), usage_words.waiting(pb.Usage())) == ("", "")


@pytest.mark.parametrize(("cost", "said"), [(None, ""), (0.0, "0.00 EUR"), (4.1, "4.10 EUR"), (0.00123, "0.0012 EUR")])
def test_a_cost_needs_prices(cost: float | None, said: str):
    assert usage_words.cost(usage(cost)) == said


def test_a_cost_is_also_said_for_a_thousand_answers():
    assert usage_words.cost(usage(4.1), answers=656) == "4.10 EUR, 6.25 EUR for 1,000 answers"
    assert usage_words.cost(usage(None), answers=656) == ""


def test_a_run_says_its_budget_and_what_it_may_cost():
    spec = trainer_pb2.RunSpec(budget=50)
    run = trainer_pb2.Run(spec=spec, usage=usage(4.1), forecast=trainer_pb2.Forecast(cost=61.5, currency="EUR"))
    assert run_words.cost(run) == "4.10 EUR of 50"
    assert "and 61.50 EUR for its steps" in run_words.memory(run)


def test_a_forecast_says_its_cost_or_else_its_time():
    used = usage_words.used(usage())
    assert usage_words.expected(usage(4.1)) == f"about 4.10 EUR, {used}"
    assert usage_words.expected(usage()) == f"about 2 h 0 min, {used}"


def test_a_turn_costs_what_its_run_and_its_evaluations_do_and_so_much_a_point():
    assert usage_words.together([usage(4.0), usage(), usage(1.0)], 0.025) == "5.00 EUR, 2.00 EUR for each point gained"
    assert usage_words.together([usage(4.0)], -0.1) == "4.00 EUR"
    assert usage_words.together([usage(), usage()], 0.1) == ""
