"""A Helm chart of an overlay of deploy/kubernetes: `python scripts/helm_chart.py cpu build/ratchet`.

The manifests are those that kustomize renders. In place of what operators change stand values: image, replicas,
resources, environment, the config maps, egress to the stores.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
OVERLAYS = ROOT / "deploy" / "kubernetes" / "overlays"
Object = dict[str, Any]

HELPERS = """\
{{- /* Variables of a container: those with a source, and those of the values. */ -}}
{{- define "ratchet.env" -}}
{{- $all := fromJsonArray (index . 0) -}}
{{- range $name, $value := index . 1 }}{{ $all = append $all (dict "name" $name "value" (toString $value)) }}{{ end -}}
{{- toJson $all -}}
{{- end -}}
"""


class Chart:
    """Objects become templates one by one, and their values are collected."""

    def __init__(self) -> None:
        self.values: Object = {"image": {"registry": "", "tag": "1"}, "storesEgress": []}

    def template(self, manifest: Object) -> str:
        metadata = manifest["metadata"]
        metadata["namespace"] = _expression(".Release.Namespace")
        match manifest["kind"], metadata["name"]:
            case "Deployment" | "StatefulSet", name:
                self._workload(name, manifest["spec"])
            case "RayCluster", name:
                groups = [manifest["spec"]["headGroupSpec"], *manifest["spec"]["workerGroupSpecs"]]
                for container in (one for group in groups for one in group["template"]["spec"]["containers"]):
                    container["image"] = _image(container["image"])
            case "ConfigMap", name:
                manifest["data"] = self._value("config", name, manifest["data"])
            case "NetworkPolicy", "ratchet-stores":
                rules = json.dumps(json.dumps(manifest["spec"]["egress"]))
                manifest["spec"]["egress"] = _expression(
                    f"concat (fromJsonArray {rules}) .Values.storesEgress | toJson"
                )
        text = yaml.safe_dump(manifest, sort_keys=False, width=10_000)
        return re.sub(r"'?<<(.*?)>>'?", lambda found: "{{ " + found[1].replace("''", "'") + " }}", text)

    def _workload(self, name: str, spec: Object) -> None:
        if "replicas" in spec:
            spec["replicas"] = self._value("replicas", name, spec["replicas"])
        (container,) = spec["template"]["spec"]["containers"]
        container["image"] = _image(container["image"])
        container["resources"] = self._value("resources", name, container["resources"])
        sourced = json.dumps(json.dumps([one for one in container.get("env", ()) if "value" not in one]))
        self.values.setdefault("env", {})[name] = {
            one["name"]: one["value"] for one in container.get("env", ()) if "value" in one
        }
        container["env"] = _expression(f'include "ratchet.env" (list {sourced} (index .Values.env "{name}"))')

    def _value(self, group: str, name: str, value: object) -> str:
        self.values.setdefault(group, {})[name] = value
        return _expression(f'index .Values.{group} "{name}" | toJson')


def _expression(text: str) -> str:
    return f"<<{text}>>"


def _image(image: str) -> str:
    name, _, tag = image.partition(":")
    if not name.startswith("ratchet-"):
        return image
    return _expression(".Values.image.registry") + name + ":" + (tag or _expression(".Values.image.tag"))


def write(overlay: str, folder: Path) -> None:
    """Raises CalledProcessError where kustomize does not render it."""
    command = [str(Path(sys.executable).with_name("kubectl")), "kustomize", str(OVERLAYS / overlay)]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    chart = Chart()
    shutil.rmtree(folder / "templates", ignore_errors=True)
    (folder / "templates").mkdir(parents=True)
    for manifest in yaml.safe_load_all(rendered):
        if manifest["kind"] != "Namespace":
            name = f"{manifest['metadata']['name']}-{manifest['kind'].lower()}.yaml"
            (folder / "templates" / name).write_text(chart.template(manifest))
    (folder / "templates" / "_helpers.tpl").write_text(HELPERS)
    about: Mapping[str, object] = {
        "apiVersion": "v2",
        "name": "ratchet",
        "description": f"Ratchet, made of deploy/kubernetes/overlays/{overlay} by scripts/helm_chart.py",
        "version": "0.1.0",
    }
    (folder / "Chart.yaml").write_text(yaml.safe_dump(dict(about), sort_keys=False))
    (folder / "values.yaml").write_text(yaml.safe_dump(chart.values, sort_keys=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overlay", choices=sorted(path.name for path in OVERLAYS.iterdir()))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    write(arguments.overlay, arguments.folder)
