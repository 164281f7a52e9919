"""The Helm chart of an overlay is the overlay: rendered by helm, with the values it ships, and with an operator's."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from .test_kubernetes import FOLDER, OVERLAYS, kustomize

ROOT = Path(__file__).parents[2]
HELM = shutil.which("helm") or str(ROOT / ".venvs" / "helm" / "helm")
Objects = dict[tuple[str, str], dict[str, Any]]

pytestmark = pytest.mark.skipif(not Path(HELM).exists(), reason="no helm on this machine: make kube-test brings it")


def charted(overlay: str, folder: Path, *options: str) -> Objects:
    subprocess.run([sys.executable, str(ROOT / "scripts/helm_chart.py"), overlay, str(folder)], check=True)
    subprocess.run([HELM, "lint", "--strict", str(folder)], check=True, capture_output=True)
    command = [HELM, "template", "ratchet", str(folder), "--namespace", "ratchet", *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return objects(one for one in yaml.safe_load_all(done.stdout) if one)


def objects(rendered: Iterable[dict[str, Any]]) -> Objects:
    """By kind and name; but for the namespace, the order of variables, and the tags of our images."""
    found = {(one["kind"], one["metadata"]["name"]): one for one in rendered}
    for container in (c for one in found.values() for c in containers(one)):
        container["env"] = {variable["name"]: variable for variable in container.get("env", ())}
        if container["image"].startswith("ratchet-"):
            container["image"] = container["image"].partition(":")[0]
    return {key: one for key, one in found.items() if key[0] != "Namespace"}


def containers(one: object) -> list[dict[str, Any]]:
    """Those of a pod at any depth: a workload's, a Ray cluster's."""
    if isinstance(one, list):
        return [found for item in one for found in containers(item)]
    if not isinstance(one, dict):
        return []
    own = one.get("containers", [])
    return [*own, *(found for key, item in one.items() if key != "containers" for found in containers(item))]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_is_the_overlay(overlay: str, tmp_path: Path) -> None:
    assert charted(overlay, tmp_path / "chart") == objects(kustomize(FOLDER / "overlays" / overlay))


def test_values_go_where_they_are_meant(tmp_path: Path) -> None:
    values = tmp_path / "mine.yaml"
    mine = {
        "image": {"registry": "r.example.com/", "tag": "7"},
        "replicas": {"registry": 3},
        "resources": {"eval": {"limits": {"memory": "9Gi"}}},
        "env": {"gateway": {"RATCHET_LOG_LEVEL": "debug", "DATABASE_URL": "postgresql://me@db/{{x}}"}},
        "config": {"ratchet-artifacts": {"ARTIFACT_URL": "s3://mine"}},
        "storesEgress": [{"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]}],
    }
    values.write_text(yaml.safe_dump(mine))
    found = charted("cpu", tmp_path / "chart", "--values", str(values))
    gateway, evaluation = (
        found["Deployment", name]["spec"]["template"]["spec"]["containers"][0] for name in ("gateway", "eval")
    )
    assert gateway["image"] == "r.example.com/ratchet-gateway:7"
    assert gateway["env"]["RATCHET_LOG_LEVEL"]["value"] == "debug"
    assert gateway["env"]["DATABASE_URL"]["value"] == "postgresql://me@db/{{x}}"
    assert gateway["env"]["RATCHET_GATEWAY_TRAINER_TARGET"]["value"] == "trainer:50051"
    assert evaluation["resources"]["limits"]["memory"] == "9Gi"
    assert found["ConfigMap", "ratchet-artifacts"]["data"]["ARTIFACT_URL"] == "s3://mine"
    assert {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]} in found["NetworkPolicy", "ratchet-stores"]["spec"]["egress"]
    assert found["Deployment", "registry"]["spec"]["replicas"] == 3
