"""deploy/kubernetes, rendered by kubectl's kustomize: strictly valid, read as the services read it, and walled off."""

import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ratchet_kit.settings import PASSWORDS
from ratchet_kit.storage import Folder

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(folder.name for folder in (FOLDER / "overlays").iterdir())
VERSIONS = ("1.30", "1.37")
"""The oldest and the newest Kubernetes that docs/kubernetes.md claims."""
SERVICES = ("gateway", "trainer", "rollout", "sandbox", "eval", "registry")
OF_OPERATORS = {"RayCluster", "ScaledObject", "TriggerAuthentication"}
"""Kinds of KubeRay and KEDA, whose schemas are not Kubernetes's."""
CALLS = {
    "gateway": {"trainer", "rollout", "sandbox", "eval", "registry"},
    "trainer": {"rollout", "sandbox", "eval", "registry"},
    "eval": {"rollout", "sandbox", "registry"},
    "registry": {"eval"},
    "rollout": {"rollout"},
    "sandbox": set[str](),
}


@cache
def rendered(overlay: str) -> list[dict[str, Any]]:
    return kustomize(FOLDER / "overlays" / overlay)


def kustomize(folder: Path) -> list[dict[str, Any]]:
    command = [str(Path(sys.executable).with_name("kubectl")), "kustomize", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@cache
def secrets() -> Mapping[str, Mapping[str, str]]:
    done = subprocess.run([str(FOLDER / "secrets.sh")], capture_output=True, text=True, check=True)
    return {one["metadata"]["name"]: one["stringData"] for one in yaml.safe_load_all(done.stdout)}


def of_kind(overlay: str, *kinds: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in rendered(overlay) if one["kind"] in kinds}


def workloads(overlay: str) -> dict[str, dict[str, Any]]:
    return of_kind(overlay, "Deployment", "StatefulSet")


def pod(workload: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = workload["spec"]["template"]["spec"]
    return found


def environment(overlay: str, name: str) -> dict[str, str]:
    """Of a service's container, as its process finds it."""
    container = pod(workloads(overlay)[name])["containers"][0]
    maps = of_kind(overlay, "ConfigMap")
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        found |= maps[source["configMapRef"]["name"]]["data"]
    for variable in container["env"]:
        value = variable.get("value", "10.0.0.9")
        found[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda name: found[name[1]], value)
    return found


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_object_is_valid(overlay: str, version: str) -> None:
    for one in rendered(overlay):
        if one["kind"] not in OF_OPERATORS:
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_its_service_reads_every_variable(overlay: str, service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings refuse a variable with their prefix that is no setting."""
    settings_class = importlib.import_module(f"{service}_service.settings").Settings
    for name in [name for name in os.environ if name.startswith("RATCHET_")]:
        monkeypatch.delenv(name)
    for name, value in environment(overlay, service).items():
        if name not in PASSWORDS.values():  # they are read, and are not there
            monkeypatch.setenv(name, value)
    settings = settings_class()
    assert pod(workloads(overlay)[service])["terminationGracePeriodSeconds"] > settings.grace.total_seconds() + 5
    if service not in ("rollout", "sandbox"):
        assert settings.database_url.startswith("postgresql://")
    monkeypatch.setenv(f"RATCHET_{service.upper()}_BANANA", "1")
    with pytest.raises(ValueError, match="BANANA"):
        settings_class()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_target_is_a_service_that_is_there(overlay: str) -> None:
    named = of_kind(overlay, "Service")
    for service in SERVICES:
        for name, value in environment(overlay, service).items():
            if name.endswith(("_TARGET", "_PEERS")) and not value.startswith("127.0.0.1"):
                host, _, port = value.rpartition(":")
                assert int(port) in [one["port"] for one in named[host]["spec"]["ports"]], (service, name)
                assert named[host]["spec"].get("clusterIP") == "None" or host == "gateway", "callers take pods in turn"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_is_confined_and_ends_in_order(overlay: str) -> None:
    for name, workload in workloads(overlay).items():
        spec = pod(workload)
        assert spec["enableServiceLinks"] is False, "RATCHET_GATEWAY_PORT=tcp://... would end a gateway at its start"
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        for container in spec["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"], name
        if name in SERVICES:
            container = spec["containers"][0]
            assert {"startupProbe", "readinessProbe", "livenessProbe", "lifecycle"} <= set(container)
            assert name in of_kind(overlay, "PodDisruptionBudget")
            assert "podAntiAffinity" in spec["affinity"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_folder_is_shared_by_machines(overlay: str) -> None:
    modes = [
        mode for claim in of_kind(overlay, "PersistentVolumeClaim").values() for mode in claim["spec"]["accessModes"]
    ]
    templates = [
        one for workload in workloads(overlay).values() for one in workload["spec"].get("volumeClaimTemplates", ())
    ]
    assert {*modes, *(mode for one in templates for mode in one["spec"]["accessModes"])} == {"ReadWriteOnce"}
    for cluster in of_kind(overlay, "RayCluster").values():
        head = pod({"spec": cluster["spec"]["headGroupSpec"]})
        beside = head["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert [one["labelSelector"]["matchLabels"]["app.kubernetes.io/name"] for one in beside] == ["trainer"]
        for group in cluster["spec"]["workerGroupSpecs"]:
            assert not [one for one in pod({"spec": group})["volumes"] if "persistentVolumeClaim" in one]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_secret_that_is_named_is_made(overlay: str) -> None:
    named = list(_secrets_named(rendered(overlay)))
    assert named
    for secret, key in named:
        assert key in {"", *secrets()[secret]}, (secret, key)
    for name, workload in workloads(overlay).items():
        files = environment(overlay, name).items() if name in SERVICES else ()
        mounted = [volume["secret"]["secretName"] for volume in pod(workload).get("volumes", ()) if "secret" in volume]
        for _, path in (one for one in files if one[0].endswith("_FILE")):
            assert Path(path).name in secrets()[mounted[0]], (name, path)


def _secrets_named(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        if "secretKeyRef" in value:
            yield value["secretKeyRef"]["name"], value["secretKeyRef"]["key"]
        if "secretName" in value:
            yield value["secretName"], ""
        for one in value.values():
            yield from _secrets_named(one)
    elif isinstance(value, list):
        for one in value:
            yield from _secrets_named(one)


def test_passwords_that_are_there_stay_as_they_are() -> None:
    given = {
        "REDIS_PASSWORD": r"a\test\x41 'quoted'",
        "POSTGRES_PASSWORD": 'a"b\\c$x: #{y}',
        "S3_SECRET_KEY": "%s-$(id)",
    }
    done = subprocess.run(
        [str(FOLDER / "secrets.sh")], capture_output=True, text=True, check=True, env=os.environ | given
    )
    made, _ = yaml.safe_load_all(done.stdout)
    keys = ("redis.password", "postgres.password", "s3.secret-key")
    assert [made["stringData"][key] for key in keys] == list(given.values())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_services_reach_whom_they_call_and_nobody_else(overlay: str) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    assert policies["ratchet-nothing"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    for service in SERVICES:
        called = set(_named(policies[service]["spec"].get("egress", ()), "to")) - {"ray"}
        assert called == CALLS[service]
        callers = set(_named(policies[service]["spec"].get("ingress", ()), "from")) - {"ray"}
        assert callers == {one for one in SERVICES if service in CALLS[one]}
    assert not [one for one in rendered(overlay) if one["kind"] == "NetworkPolicy" and "ipBlock" in str(one)]


def test_the_sandbox_reaches_no_store_and_has_a_digest_alone() -> None:
    for overlay in OVERLAYS:
        assert not [name for name in environment(overlay, "sandbox") if "TOKEN_FILE" in name or "AWS" in name]
        stores = of_kind(overlay, "NetworkPolicy")["ratchet-stores"]["spec"]["podSelector"]["matchExpressions"]
        assert "sandbox" not in stores[0]["values"]
    token, digest = secrets()["ratchet"]["service.token"], secrets()["ratchet-sandbox"]["service.digest"]
    assert hashlib.sha256(token.encode()).hexdigest() == digest


def _named(rules: Any, side: str) -> Iterator[str]:
    for rule in rules:
        for peer in rule.get(side, ()):
            selector = peer["podSelector"]
            yield from (name for one in selector.get("matchExpressions", ()) for name in one["values"])
            if name := selector.get("matchLabels", {}).get("app.kubernetes.io/name"):
                yield name


def test_what_scales_a_deployment_says_how_many_there_are() -> None:
    scaled = [
        one["spec"]["scaleTargetRef"]["name"] for one in rendered("cpu") if "scaleTargetRef" in one.get("spec", {})
    ]
    assert sorted(scaled) == ["eval", "gateway", "rollout", "sandbox"]
    assert not [name for name in scaled if "replicas" in workloads("cpu")[name]["spec"]]


def base_with(folder: Path, *components: str) -> list[dict[str, Any]]:
    """The base beside these components, by a kustomization in `folder`."""

    def path(name: str) -> str:
        return os.path.relpath(FOLDER / name, folder.resolve())

    plan = {"resources": [path("base")], "components": [path(f"components/{one}") for one in components]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(plan))
    return kustomize(folder)


def test_a_ray_cluster_that_grows_has_no_node_but_its_head_at_first(tmp_path: Path) -> None:
    [cluster] = [one for one in base_with(tmp_path, "stores", "ray", "ray-autoscaling") if one["kind"] == "RayCluster"]
    assert cluster["spec"]["enableInTreeAutoscaling"] is True
    (group,) = cluster["spec"]["workerGroupSpecs"]
    assert (group["replicas"], group["minReplicas"]) == (0, 0)
    head, worker = cluster["spec"]["headGroupSpec"], group
    tokens = [one["template"]["spec"]["automountServiceAccountToken"] for one in (head, worker)]
    assert tokens == [True, False], "the autoscaler's, beside the head"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_sandbox_of_level_2_does_not_start_below_it(tmp_path: Path, version: str) -> None:
    objects = base_with(tmp_path, "stores", "sandbox-l2", "sandbox-images")
    [sandbox] = [one for one in objects if (one["kind"], one["metadata"]["name"]) == ("Deployment", "sandbox")]
    kubernetes_validate.validate(sandbox, version, strict=True)
    assert {"name": "RATCHET_SANDBOX_MIN_LEVEL", "value": "L2"} in pod(sandbox)["containers"][0]["env"]
    assert pod(sandbox)["hostUsers"] is False
    (container,) = pod(sandbox)["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    mounts = {one["mountPath"]: one.get("readOnly") for one in container["volumeMounts"]}
    assert mounts[env["RATCHET_SANDBOX_IMAGES"]] is True
    assert env["XDG_CACHE_HOME"].startswith("/var/lib/ratchet/"), "no pod writes where others read"


@pytest.mark.parametrize("version", VERSIONS)
def test_images_come_from_the_artifact_store_past_the_sandbox(tmp_path: Path, version: str) -> None:
    objects = base_with(tmp_path, "stores", "sandbox-l2", "sandbox-images", "sandbox-images-store")
    [mirror] = [one for one in objects if one["kind"] == "CronJob"]
    kubernetes_validate.validate(mirror, version, strict=True)
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for one in objects
        if (one["kind"], one["metadata"]["name"]) in (("Deployment", "sandbox"), ("CronJob", "sandbox-images"))
        for volume in pod(one["spec"]["jobTemplate"] if one is mirror else one)["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claims == ["sandbox-images"] * 2


def test_what_the_artifact_store_has_becomes_a_nodes_images(
    tmp_path: Path, s3_url: str, s3_server_environment: dict[str, str]
) -> None:
    if not shutil.which("rclone"):
        pytest.skip("no rclone on this machine: apt-get install rclone")
    mirror = yaml.safe_load_all((FOLDER / "components/sandbox-images-store/mirror.yaml").read_text())
    (container,) = pod(next(mirror)["spec"]["jobTemplate"])["containers"]
    given = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    shell, option, command = container["command"]
    images = tmp_path / "images"
    images.mkdir()
    (images / "gone.tar").write_text("of an image that is given no more")
    store = Folder(f"{s3_url}/images")
    for content in (b"first", b"other"):  # as long, and within the same second
        store.write("app/index.json", content)
        store.write("app/blobs/sha256/1", b"layer")
        command_here = command.replace(" /images", f" {images}")
        environment = {"PATH": os.environ["PATH"], **s3_server_environment, **given, "ARTIFACT_URL": s3_url}
        subprocess.run([shell, option, command_here], env=environment, check=True)
        found = {path.relative_to(images).as_posix(): path.read_bytes() for path in images.rglob("*") if path.is_file()}
        assert found == {"app/index.json": content, "app/blobs/sha256/1": b"layer"}


def test_databases_are_those_of_compose() -> None:
    made = of_kind("single-node", "ConfigMap")["ratchet-databases"]["data"]["databases.sql"]
    compose = (ROOT / "deploy/docker/databases.sql").read_text()
    found = set(re.findall(r"CREATE DATABASE (\w+)", made))
    assert found == set(re.findall(r"CREATE DATABASE (\w+)", compose)) - {"ratchet_sandbox"}
