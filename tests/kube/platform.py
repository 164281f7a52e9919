"""A platform of rendered manifests: the images of its pods, its secrets, a model, and where to call it."""

import os
from collections.abc import Iterable
from pathlib import Path

import fsspec

from deploy.docker import check_platform
from ratchet.common.v1 import model_pb2
from ratchet_client import Client
from tests.kube.cluster import Cluster, Service
from tests.kube.manifests import WORKLOADS, Object
from tests.shape.test_kubernetes import SERVICES, pod, secrets

ROOT = Path(__file__).parents[2]
PLACE = "ratchet/artifacts/starter"
STORES = {"postgres": "POSTGRES_IMAGE", "redis": "REDIS_IMAGE", "s3": "S3_IMAGE"}
"""Variables that name another image of a store."""


def with_images(objects: Iterable[Object]) -> list[Object]:
    """With the images of the test; sandboxes keep no batches, so the stores for these are left out."""
    found = [one for one in objects if one["metadata"]["name"] not in ("sandbox-redis", "sandbox-batches")]
    ours = {f"ratchet-{name}" for name in SERVICES}
    for one in found:
        if one["kind"] in WORKLOADS:
            container, variable = pod(one)["containers"][0], STORES.get(one["metadata"]["name"], "")
            name = container["image"].partition(":")[0].rpartition("/")[2]
            if name in ours:
                container["image"] = os.environ["RATCHET_KUBE_IMAGES"] + name.removeprefix("ratchet-")
            else:
                container["image"] = os.environ.get(variable, container["image"])
    return found


def secrets_of() -> list[Object]:
    return [{"metadata": {"name": name}, "stringData": values} for name, values in secrets().items()]


def champion_of(cluster: Cluster, client: Client) -> model_pb2.VersionRef:
    """The starter, which came by the bucket, as a model's champion."""
    keys = secrets()["ratchet"]
    store = fsspec.filesystem(
        "s3",
        key=keys["s3.access-key"],
        secret=keys["s3.secret-key"],
        endpoint_url=f"http://{cluster.pods['s3'][0].address}:8333",
    )
    store.put(f"{ROOT}/models/starter/", f"{PLACE}/", recursive=True)
    made = check_platform.register(client, f"s3://{PLACE}")
    client.models.set_alias("starter", "champion", made.ref.number, reason="kube-test")
    return made.ref


def address(service: Service) -> dict[str, str]:
    return {"RATCHET_URL": service.url, "RATCHET_API_KEY": secrets()["ratchet"]["admin.key"]}
