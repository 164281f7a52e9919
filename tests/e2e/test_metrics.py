"""Grafana's boards and the alerts ask for what the services say: of their live /metrics, and in a real Prometheus."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ratchet_testing import boards, free_port

from .conftest import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

DEPLOY = Path(__file__).parents[2] / "deploy"
SERVICES = ("gateway", "trainer", "rollout", "sandbox", "eval", "registry")
BOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"


def alerts() -> list[str]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return [rule["expr"] for rule in group["rules"]]


ASKED = {board.stem: boards.expressions_of(board) for board in BOARDS} | {"alerts": alerts()}


@pytest.fixture(scope="module")
def said(platform: Platform) -> dict[str, set[str]]:
    """Name of a sample -> the labels that it has, over all services; no labels where it was never counted."""
    state = platform.home.read_state()
    assert state is not None
    found: dict[str, set[str]] = {}
    for service in SERVICES:
        page = httpx.get(f"http://127.0.0.1:{state.ports[f'{service}-metrics']}/metrics").raise_for_status().text
        for family in text_string_to_metric_families(page):
            ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
            for end in ends:
                found.setdefault(family.name + end, set())
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
    return found


@pytest.mark.parametrize("name", sorted(ASKED))
def test_what_is_asked_for_is_there(name: str, said: dict[str, set[str]]) -> None:
    asked = boards.metrics_in(" ".join(ASKED[name]))
    assert len(asked) > 1
    assert asked <= set(said)
    for expression in ASKED[name]:
        for metric, label in boards.labels_in(expression):
            assert not said[metric] or label in said[metric] | boards.FROM_PROMETHEUS, (metric, label, expression)


@contextmanager
def prometheus(folder: Path, targets: dict[str, str]) -> Iterator[httpx.Client]:
    """With the job, the labels and the alerts of Compose; the targets are those of this platform."""
    job, *_exporters = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    static = [{"targets": [target], "labels": {"service": service}} for service, target in targets.items()]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [{"job_name": job["job_name"], "static_configs": static}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    address = f"127.0.0.1:{free_port()}"
    command = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address={address}",
    ]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://{address}/api/v1", timeout=30) as client:
            yield client
    finally:
        process.terminate()
        process.wait(30)


def until_up(client: httpx.Client, count: int) -> dict[str, str]:
    """Service -> its health, once all were read."""
    deadline = time.monotonic() + 60
    found: list[dict[str, Any]] = []
    while len(found) < count or any(one["health"] != "up" for one in found):
        assert time.monotonic() < deadline, found
        time.sleep(0.5)
        try:
            found = client.get("/targets").raise_for_status().json()["data"]["activeTargets"]
        except httpx.HTTPError:
            continue
    return {one["labels"]["service"]: one["health"] for one in found}


def test_a_real_prometheus_reads_and_answers(platform: Platform, tmp_path: Path) -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("no prometheus on this machine: apt-get install prometheus")
    state = platform.home.read_state()
    assert state is not None
    targets = {service: f"127.0.0.1:{state.ports[f'{service}-metrics']}" for service in SERVICES}
    with prometheus(tmp_path, targets) as client:
        assert until_up(client, len(SERVICES)) == dict.fromkeys(SERVICES, "up")
        time.sleep(3)  # a rate wants two readings, a rule one evaluation
        for board in BOARDS:
            for expression in boards.expressions_of(board):
                query = expression.replace("$__rate_interval", "1m").replace("$node", ".*")
                answer = client.get("/query", params={"query": query}).json()
                assert answer["status"] == "success", (board.name, query, answer)
        (group,) = client.get("/rules").raise_for_status().json()["data"]["groups"]
        assert {rule["health"] for rule in group["rules"]} == {"ok"}, group
        assert len(group["rules"]) == len(alerts())
        assert client.get("/query", params={"query": "sum(up)"}).json()["data"]["result"][0]["value"][1] == "6"
