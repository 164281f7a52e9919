"""Pods of rendered manifests, as podman knows them."""

import base64
import copy
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Object = dict[str, Any]
WORKLOADS = ("Deployment", "StatefulSet")


def pod_of(workload: Object, name: str, address: str, root: Path) -> Object:
    """A pod of a workload. Its folders are those of `folders`."""
    template = copy.deepcopy(workload["spec"]["template"])
    spec: Object = template["spec"]
    container: Object = spec["containers"][0]
    for part in ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "ports"):
        container.pop(part, None)  # podman would publish each port on this machine
    container["env"] = [variable(one, address) for one in container.get("env", ())]
    claims = [one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates", ())]
    volumes = [{"name": one, "emptyDir": {}} for one in claims] + spec.get("volumes", [])
    spec["volumes"] = [known(one, root / name) for one in volumes]
    metadata = {"name": name, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def folders(pod: Object) -> dict[Path, int]:
    """Folders that a pod is given, and who owns them: podman 4.3 knows no fsGroup."""
    paths = [Path(one["hostPath"]["path"]) for one in pod["spec"]["volumes"] if "hostPath" in one]
    return dict.fromkeys(paths, pod["spec"]["securityContext"]["fsGroup"])


def variable(one: Mapping[str, Any], address: str) -> Object:
    """Without references: podman knows neither `status.podIP` nor `$(POD_IP)`."""
    source = one.get("valueFrom", {})
    if "fieldRef" in source:
        return {"name": one["name"], "value": address}
    if "secretKeyRef" in source:
        key = source["secretKeyRef"]
        return {"name": one["name"], "valueFrom": {"secretKeyRef": key | {"name": f"{key['name']}-env"}}}
    return {"name": one["name"], "value": one["value"].replace("$(POD_IP)", address)}


def known(volume: Mapping[str, Any], folder: Path) -> Object:
    """A volume as podman has it."""
    if "emptyDir" in volume:
        return {"name": volume["name"], "hostPath": {"path": str(folder / volume["name"]), "type": "Directory"}}
    if "secret" in volume:  # podman 4.3 ends where nothing is said
        return {"name": volume["name"], "secret": volume["secret"] | {"optional": False}}
    return dict(volume)


def stored(secret: Mapping[str, Any]) -> dict[str, str]:
    """Podman 4.3 has two of each: files are read from YAML, as they are, and variables from JSON, encoded."""
    name, values = secret["metadata"]["name"], secret["stringData"]
    files = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": values}
    variables = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    return {name: json.dumps(files), f"{name}-env": json.dumps(variables)}


def calls_somebody(pod: Object, policies: Iterable[Object]) -> bool:
    """Whether a network policy of the pod's labels has a rule for what goes out."""
    mine = (one["spec"] for one in policies if selects(one["spec"]["podSelector"], pod["metadata"]["labels"]))
    return any(one.get("egress") for one in mine)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    rules = selector.get("matchExpressions", ())
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        (labels.get(rule["key"]) in rule["values"]) == (rule["operator"] == "In") for rule in rules
    )
