"""Each version has numbers of its own, and there is a bound on how many do."""

from dataclasses import replace
from datetime import timedelta

import pytest
from prometheus_client import REGISTRY

from gateway_service.domain.traffic import version_meter
from gateway_service.domain.traffic.version_meter import VersionMeter
from ratchet_kit.names import VersionRef

from ..world import World


def read(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(f"ratchet_gateway_{name}", labels) or 0.0


async def test_each_version_has_its_answers(world: World) -> None:
    await world.ask()
    (made,) = await world.records()
    record = replace(made, version=VersionRef("counted", 7), prompt_tokens=5, completion_tokens=3)
    of_version = {"model": "counted", "version": "7"}
    meter, arm = VersionMeter(), record.arm.value
    for one in (record, record, replace(record, error="no engine"), replace(record, left=True)):
        meter.count(replace(one, latency=timedelta(seconds=2)))
    found = [read("answers_total", **of_version, arm=arm, outcome=name) for name in ("answered", "failed", "left")]
    assert found == [2, 1, 1]
    assert read("answer_seconds_sum", **of_version) == 4, "of answers alone"
    assert read("answer_tokens_total", **of_version, kind="completion") == 12


async def test_versions_beyond_the_bound_count_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(version_meter, "MOST_LABELS", 2)
    await world.ask()
    (record,) = await world.records()
    meter, other = VersionMeter(), {"model": "other", "version": "0", "arm": record.arm.value, "outcome": "answered"}
    before = read("answers_total", **other)
    for number in (1, 2, 3, 4, 1):
        meter.count(replace(record, version=VersionRef("bounded", number)))
    assert read("answers_total", **other) == before + 2
    assert read("answers_total", **other | {"model": "bounded", "version": "1"}) == 2


async def test_each_variant_has_its_answers(world: World) -> None:
    await world.ask()
    (made,) = await world.records()
    meter = VersionMeter()
    for variant, error in (("control", ""), ("treatment", "no engine"), ("treatment", "")):
        meter.count(replace(made, experiment_id="exp_1", variant=variant, error=error))
    labels = [("control", "answered"), ("treatment", "failed"), ("treatment", "answered"), ("control", "failed")]
    found = [read("variant_answers_total", experiment="exp_1", variant=one, outcome=how) for one, how in labels]
    assert found == [1, 1, 1, 0]
