"""Rendered manifests in `podman kube play`, on a machine without a cluster.

Podman knows pods, claims, config maps and secrets. This stands in for the rest: controllers (a pod for each replica,
one after the other), the kubelet (readiness, preStop, owners of volumes), kube-proxy (the one Service with an address
of its own), and of network policies those that let a pod call nobody.
"""

import itertools
import json
import os
import select
import socket
import socketserver
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.kube.manifests import WORKLOADS, Object, calls_somebody, folders, pod_of, stored

NETWORK, SUBNET = "ratchet", "10.89.77"


def podman(*arguments: str, text: str | None = None, check: bool = True) -> str:
    done = subprocess.run(["podman", *arguments], input=text, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"podman {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@dataclass(frozen=True)
class Pod:
    name: str
    address: str
    spec: Object = field(repr=False, compare=False)

    @property
    def container(self) -> Object:
        found: Object = self.spec["containers"][0]
        return found

    def ready(self) -> bool:
        """Whether its readiness probe passes."""
        probe = self.container["readinessProbe"]
        if "grpc" in probe:
            return serving(f"{self.address}:{probe['grpc']['port']}")
        if "httpGet" in probe:
            return answers(f"http://{self.address}:{probe['httpGet']['port']}{probe['httpGet']['path']}")
        return self.runs(*probe["exec"]["command"])

    def runs(self, *command: str) -> bool:
        """Whether a command in its container ends well."""
        return not subprocess.run(
            ["podman", "exec", f"{self.name}-{self.container['name']}", *command], capture_output=True, check=False
        ).returncode

    def wall(self) -> None:
        """Lets it answer, and call nobody."""
        process = podman("inspect", "--format", "{{.State.Pid}}", f"{self.name}-{self.container['name']}").strip()
        rule = ["OUTPUT", "!", "-o", "lo", "-m", "conntrack", "--ctstate", "NEW", "-j", "REJECT"]
        subprocess.run(["nsenter", "--target", process, "--net", "iptables", "--append", *rule], check=True)

    def end(self) -> None:
        """In order: preStop, SIGTERM, and SIGKILL after the grace period."""
        self.runs(*self.container["lifecycle"]["preStop"]["exec"]["command"])
        # Of a pod podman would stop the container with the network, too.
        grace = str(self.spec["terminationGracePeriodSeconds"])
        podman("stop", "--time", grace, f"{self.name}-{self.container['name']}")
        podman("pod", "rm", "--force", self.name)

    def kill(self) -> None:
        podman("kill", "--signal", "KILL", f"{self.name}-{self.container['name']}")
        podman("pod", "rm", "--force", self.name)


def serving(target: str) -> bool:
    with grpc.insecure_channel(target) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        except grpc.RpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


class Cluster:
    """Pods of workloads, by workload."""

    def __init__(self, objects: Iterable[Object], secrets: Iterable[Object], root: Path) -> None:
        """`root` holds the folders of pods."""
        self._root = root
        self._objects = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        self._secrets = {name: text for one in secrets for name, text in stored(one).items()}
        self._numbers = itertools.count()
        self._hosts = itertools.count(10)
        self.serving: dict[str, list[Pod]] = {}
        """Pods that are in their Service."""
        self.pods: dict[str, list[Pod]] = {name: [] for kind, name in self._objects if kind in WORKLOADS}

    def start(self) -> None:
        """Everything at once, as `kubectl apply` does."""
        podman("network", "create", "--subnet", f"{SUBNET}.0/24", NETWORK)
        for name, text in self._secrets.items():
            podman("secret", "create", name, "-", text=text)
        for name in self.pods:
            for _ in range(self.replicas(name)):
                self.add(name)

    def stop(self) -> None:
        for pod in (pod for pods in self.pods.values() for pod in pods):
            podman("pod", "rm", "--force", "--time", "0", pod.name, check=False)
        podman("volume", "prune", "--force", check=False)
        podman("network", "rm", "--force", NETWORK, check=False)
        podman("secret", "rm", *self._secrets, check=False)

    def replicas(self, name: str) -> int:
        """As the workload says, or the least number that what scales it allows."""
        spec = self._workload(name)["spec"]
        if "replicas" in spec:
            return int(spec["replicas"])
        specs = [one.get("spec", {}) for one in self._objects.values()]
        [scaler] = [one for one in specs if one.get("scaleTargetRef", {}).get("name") == name]
        return int(scaler.get("minReplicas", scaler.get("minReplicaCount", 1)))

    def add(self, name: str) -> Pod:
        workload = self._workload(name)
        address = f"{SUBNET}.{next(self._hosts)}"
        pod = pod_of(workload, f"{name}-{next(self._numbers)}", address, self._root)
        for folder, owner in folders(pod).items():
            folder.mkdir(parents=True)
            os.chown(folder, owner, owner)
        maps = [one for (kind, _), one in self._objects.items() if kind == "ConfigMap"]
        text = yaml.safe_dump_all([*maps, pod])
        podman("kube", "play", f"--network={NETWORK}:ip={address},alias={name}", "-", text=text)
        made = Pod(pod["metadata"]["name"], address, workload["spec"]["template"]["spec"])
        policies = [one for (kind, _), one in self._objects.items() if kind == "NetworkPolicy"]
        if not calls_somebody(pod, policies):
            made.wall()
        self.pods[name].append(made)
        return made

    def wait(self, seconds: float, *names: str) -> None:
        """Until all pods of the workloads (none: of all) are ready."""
        deadline = time.monotonic() + seconds
        waiting = [pod for name in names or self.pods for pod in self.pods[name]]
        while waiting := [pod for pod in waiting if not pod.ready()]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not ready after {seconds:.0f} s: {', '.join(pod.name for pod in waiting)}")
            time.sleep(1)
        self.serving |= {name: list(self.pods[name]) for name in names or self.pods}

    def roll(self, name: str) -> None:
        """Restarts as a Deployment does: a new pod is ready first, and an old one leaves its Service before it ends."""
        for old in list(self.pods[name]):
            new = self.add(name)
            self.wait(300, name)
            self.pods[name].remove(old)
            self.serving[name].remove(old)
            old.end()
            print(f"{old.name} ended in order, {new.name} in its place")

    def _workload(self, name: str) -> Object:
        return next(one for (kind, named), one in self._objects.items() if named == name and kind in WORKLOADS)


class Service(socketserver.ThreadingTCPServer):
    """Stands in for kube-proxy: each new connection goes to the next pod that is in the Service."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, cluster: Cluster, name: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self._cluster, self._name, self._port, self._next = cluster, name, port, itertools.count()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def connect(self) -> socket.socket:
        pods = list(self._cluster.serving[self._name])
        return socket.create_connection((pods[next(self._next) % len(pods)].address, self._port))


class Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        service: Any = self.server
        with closing(service.connect()) as pod:
            ends = {self.request: pod, pod: self.request}
            while ends:
                for source in select.select(list(ends), [], [])[0]:
                    try:
                        data = source.recv(65536)
                        ends[source].sendall(data)
                        if not data:
                            ends.pop(source).shutdown(socket.SHUT_WR)
                    except OSError:
                        return


def logs(cluster: Cluster, lines: int = 15) -> str:
    found = []
    for pod in (pod for pods in cluster.pods.values() for pod in pods):
        name = f"{pod.name}-{pod.container['name']}"
        state = json.loads(podman("inspect", name, check=False) or "[{}]")[0].get("State", {})
        done = subprocess.run(
            ["podman", "logs", "--tail", str(lines), name], capture_output=True, text=True, check=False
        )
        found.append(
            f"--- {name}: {state.get('Status')}, exit code {state.get('ExitCode')}\n{done.stdout}{done.stderr}"
        )
    return "\n".join(found)
