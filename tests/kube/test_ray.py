"""The pods of a RayCluster (components/ray) in podman: two workers that have the trainer's image and nothing else, of
which one is killed amid a run. This stands in for KubeRay, which gives containers their command."""

import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ratchet.common.v1 import model_pb2, problem_pb2
from ratchet.trainer.v1 import trainer_pb2 as pb
from ratchet_client import Client
from tests.kube.cluster import Cluster, Service, logs
from tests.kube.manifests import Object
from tests.kube.platform import address, champion_of, secrets_of, with_images
from tests.shape.test_kubernetes import base_with, pod

HEAD, RANKS = "ratchet-ray-head-svc", "ray-ranks"
STEPS = 6
pytestmark = [
    pytest.mark.skipif("RATCHET_KUBE_IMAGES" not in os.environ, reason="make kube-test brings the images"),
    pytest.mark.timeout(1800),
]


def as_kuberay(objects: list[Object]) -> Iterator[Object]:
    """Each group of a RayCluster as a workload; ranks on processors have one logical GPU each."""
    for one in objects:
        if one["kind"] != "RayCluster":
            yield one
            continue
        spec = one["spec"]
        [ranks] = spec["workerGroupSpecs"]
        yield group(HEAD, 1, spec["headGroupSpec"], "--head", "--port=6379")
        yield group(RANKS, 2, ranks, f"--address={HEAD}:6379", "--num-cpus=16", "--num-gpus=1")


def group(name: str, replicas: int, spec: dict[str, Any], *arguments: str) -> Object:
    container = pod({"spec": spec})["containers"][0]
    given = [f"--{key}={value}" for key, value in spec["rayStartParams"].items()]
    command = ["ray", "start", "--block", "--disable-usage-stats", "--dashboard-agent-listen-port=52365", *arguments]
    health = "import urllib.request as u; u.urlopen('http://127.0.0.1:52365/api/local_raylet_healthz')"
    made = container | {
        "command": [*command, *given],
        "readinessProbe": {"exec": {"command": ["python", "-c", health]}},
    }
    # Where many are at work, a node's processes take long to come up.
    made["env"] = [*made["env"], {"name": "RAY_agent_register_timeout_ms", "value": "300000"}]
    template = spec["template"] | {"spec": pod({"spec": spec}) | {"containers": [made]}}
    return {"kind": "Deployment", "metadata": {"name": name}, "spec": {"replicas": replicas, "template": template}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = base_with(tmp_path_factory.mktemp("base"), "stores", "ray")
    made = Cluster(with_images(as_kuberay(found)), secrets_of(), tmp_path_factory.mktemp("pods"))
    try:
        made.start()
        made.wait(600)
        yield made
    finally:
        print(logs(made))
        made.stop()


def test_a_lost_worker_costs_a_run_one_attempt(cluster: Cluster) -> None:
    with Service(cluster, "gateway", 8080) as service:
        where = address(service)
        with Client(where["RATCHET_URL"], where["RATCHET_API_KEY"], timeout_s=240) as client:
            run = client.runs.create(spec(champion_of(cluster, client))).id
            until(client, run, lambda found: found.step >= 2)
            cluster.pods[RANKS].pop().kill()
            until(client, run, lambda found: found.attempt > 1 or bool(found.waits_for))
            cluster.add(RANKS)
            ended = client.runs.wait(run)
            assert ended.state == pb.Run.STATE_SUCCEEDED, ended.failure.message
            assert ended.step == STEPS
            steps = [one.number for one in client.runs.steps(run)]
            assert steps == list(range(1, STEPS + 1)), "no step was done twice"
        service.shutdown()


def spec(base: model_pb2.VersionRef) -> pb.RunSpec:
    made = pb.RunSpec(
        base=model_pb2.ModelRef(version=base),
        algorithm=pb.ALGORITHM_GRPO,
        problems=problem_pb2.ProblemSetRef(name="composed/train"),
        reward=pb.RewardSpec(name="tests_fraction"),
        steps=STEPS,
        checkpoint_every=1,
        resources=pb.Resources(nodes=2),
    )
    sizes = {"batch_size": 2, "group_size": 4, "max_prompt_tokens": 64, "max_response_tokens": 48, "warmup_steps": 0}
    for name, value in sizes.items():
        setattr(made.hyperparameters, name, value)
    return made


def until(client: Client, run: str, holds: Any) -> None:
    deadline = time.monotonic() + 1200
    while not holds(found := client.runs.get(run)):
        assert found.state not in (pb.Run.STATE_FAILED, pb.Run.STATE_CANCELLED), found.failure.message
        assert time.monotonic() < deadline, re.sub(r"\s+", " ", str(found))[:2000]
        time.sleep(1)
