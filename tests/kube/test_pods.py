"""The pods of deploy/kubernetes in podman: services of the overlay `cpu`, beside stores of `single-node`."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from deploy.docker import check_platform
from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.eval.v1 import eval_pb2
from ratchet_client import Client
from tests.kube.cluster import Cluster, Service, logs
from tests.kube.manifests import Object
from tests.kube.platform import PLACE, address, champion_of, secrets_of, with_images
from tests.shape.test_kubernetes import pod, rendered

pytestmark = [
    pytest.mark.skipif("RATCHET_KUBE_IMAGES" not in os.environ, reason="make kube-test brings the images"),
    pytest.mark.timeout(1800),
]


def manifests() -> list[Object]:
    """Every object of `cpu`, and the stores of `single-node`. The trainer has the prices by which the budget of
    check_platform is spent."""
    named = {(one["kind"], one["metadata"]["name"]) for one in rendered("cpu")}
    stores = [one for one in rendered("single-node") if (one["kind"], one["metadata"]["name"]) not in named]
    found = with_images([*stores, *rendered("cpu")])
    [trainer] = [one for one in found if one["kind"] == "StatefulSet" and one["metadata"]["name"] == "trainer"]
    pod(trainer)["containers"][0]["env"].append({"name": "RATCHET_PRICES", "value": check_platform.PRICES})
    return found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(manifests(), secrets_of(), tmp_path_factory.mktemp("pods"))
    try:
        made.start()
        made.wait(300)
        yield made
    finally:
        print(logs(made))
        made.stop()


@pytest.fixture(scope="module")
def service(cluster: Cluster) -> Iterator[Service]:
    with Service(cluster, "gateway", 8080) as found:
        yield found
        found.shutdown()


@pytest.fixture(scope="module")
def champion(cluster: Cluster, service: Service) -> model_pb2.VersionRef:
    with caller(service) as client:
        return champion_of(cluster, client)


def caller(service: Service) -> Client:
    where = address(service)
    return Client(where["RATCHET_URL"], where["RATCHET_API_KEY"], timeout_s=240)


def test_every_replica_runs(cluster: Cluster) -> None:
    """Both gateways made the tables of one empty database at the same time."""
    assert {name: len(pods) for name, pods in cluster.pods.items() if len(pods) > 1} == {"gateway": 2, "sandbox": 2}
    assert all(pod.ready() for pods in cluster.pods.values() for pod in pods)


def test_the_sandbox_reaches_no_store(cluster: Cluster) -> None:
    def reaches(name: str, target: str) -> bool:
        line = f"import socket; socket.create_connection(('{target}', 5432), timeout=30)"
        return cluster.pods[name][0].runs("python", "-c", line)

    stores = (cluster.pods["postgres"][0].address, "postgres")
    assert [reaches(name, one) for name in ("gateway", "sandbox") for one in stores] == [True, True, False, False]


def test_a_rolling_restart_of_gateways_loses_no_request(
    cluster: Cluster, service: Service, champion: model_pb2.VersionRef
) -> None:
    before = list(cluster.pods["gateway"])
    with Load(service, callers=4) as load:
        cluster.roll("gateway")
    assert not set(before) & set(cluster.pods["gateway"])
    print(load.ends)
    assert load.ends["whole"] > 20
    assert set(load.ends) == {"whole"}, load.faults


def test_a_killed_sandbox_costs_an_evaluation_nothing(
    cluster: Cluster, service: Service, champion: model_pb2.VersionRef
) -> None:
    problems, samples = 64, 4
    spec = eval_pb2.EvaluationSpec(
        model=model_pb2.ModelRef(version=champion),
        problems=problem_pb2.ProblemSetRef(name="composed/test", limit=problems),
        samples_per_problem=samples,
        k=[1],
        max_tokens=96,
    )
    with caller(service) as client:
        made = client.evaluations.create(spec)
        while not client.evaluations.get(made.id).verdicts:
            time.sleep(0.1)
        cluster.pods["sandbox"].pop(0).kill()
        cluster.add("sandbox")
        ended = client.evaluations.wait(made.id)
    print(dict(ended.verdicts))
    assert ended.state == eval_pb2.Evaluation.STATE_SUCCEEDED, ended
    assert sum(ended.verdicts.values()) == sum(
        ended.verdicts[v] for v in ("PASSED", "FAILED", "COMPILE_ERROR", "RUNTIME_ERROR", "TIME_LIMIT")
    )


def test_the_platform_does_its_work(
    service: Service, champion: model_pb2.VersionRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Compose: a completion, evaluations, a run that makes a version, its gate."""
    for name, value in address(service).items():
        monkeypatch.setenv(name, value)
    check_platform.main(f"s3://{PLACE}")


class Load:
    """Callers of streamed completions: each one after the other, over a connection that it keeps, and none twice."""

    def __init__(self, service: Service, callers: int) -> None:
        self.ends: Counter[str] = Counter()
        self.faults: list[str] = []
        self._over = threading.Event()
        self._where = address(service)
        self._callers = [threading.Thread(target=self._call) for _ in range(callers)]

    def __enter__(self) -> "Load":
        for one in self._callers:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for one in self._callers:
            one.join()

    def _call(self) -> None:
        key = {"Authorization": f"Bearer {self._where['RATCHET_API_KEY']}"}
        body = {
            "model": "starter",
            "stream": True,
            "max_tokens": 48,
            "messages": [{"role": "user", "content": "Write a function add(a, b) that returns the sum."}],
        }
        with httpx.Client(base_url=self._where["RATCHET_URL"], headers=key, timeout=60) as client:
            while not self._over.is_set():
                lines: list[str] = []
                try:
                    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                        answer.raise_for_status()
                        for line in answer.iter_lines():
                            lines += [line] if line else []
                    self.ends["whole" if lines[-1:] == ["data: [DONE]"] else "broken"] += 1
                except httpx.HTTPError as error:
                    self.ends["broken" if lines else "lost before the first piece"] += 1
                    self.faults.append(repr(error))
