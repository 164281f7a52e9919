"""Pins every environment: writes the requirements*.lock files from the pyproject.toml files (`make locks`).

requirements-light.lock holds what the light services, the libraries and the development tools need together. Each
light service's own lock, for its image, takes the same versions. Trainer (verl) and rollout (vLLM) need versions of
transformers that exclude each other, so each is solved alone, once for CPU and once for CUDA. What programs in the
sandbox may import is apart from all these, and so are the clients that the gateway is tested with: LiteLLM takes no
openai of version 3. inspect_ai, which reads exported episodes in a test, takes no fsspec as new as theirs.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
UV = ROOT / ".venvs" / "tools" / "bin" / "uv"
LIGHT_LOCK = ROOT / "requirements-light.lock"
LIGHT_SERVICES = ("eval", "gateway", "registry", "sandbox")
# The CPU build of torch does not load the registry's CUDA builds of these, and neither verl nor vLLM needs them here.
NOT_ON_CPU = ("torchvision", "torchaudio", "torchcodec")
TORCH_CPU = "torch==2.13.0+cpu"


def projects() -> dict[str, Path]:
    """Distribution name -> pyproject.toml of every part of this project."""
    files = [*ROOT.glob("libs/*/pyproject.toml"), *ROOT.glob("services/*/pyproject.toml")]
    return {tomllib.loads(file.read_text())["project"]["name"]: file for file in files}


def requirements(name: str, extras: Iterable[str], known: dict[str, Path]) -> set[str]:
    """What a part needs from the package index, its own parts followed."""
    project = tomllib.loads(known[name].read_text())["project"]
    lines = list(project.get("dependencies", []))
    for extra in extras:
        lines += project.get("optional-dependencies", {})[extra]
    found: set[str] = set()
    for line in lines:
        requirement = Requirement(line)
        if requirement.name in known:
            if requirement.name != name or set(requirement.extras) - set(extras):
                found |= requirements(requirement.name, requirement.extras, known)
        else:
            found.add(line)
    return found


def compile_lock(lock: Path, wanted: set[str], *, constraint: Path | None = None, cpu_torch: bool = False) -> None:
    command = [str(UV), "pip", "compile", "-", "--quiet", "--python-version", "3.11"]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--no-header", "--no-annotate"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--output-file", str(lock)]
    environment = dict(os.environ)
    links = environment.pop("UV_FIND_LINKS", "") or environment.pop("PIP_FIND_LINKS", "")
    if constraint is not None:
        command += ["--constraint", str(constraint)]
    if cpu_torch:
        wanted = {line for line in wanted if Requirement(line).name != "torch"} | {TORCH_CPU}
        for package in NOT_ON_CPU:
            command += ["--no-emit-package", package]
        if links:
            environment["UV_FIND_LINKS"] = links
        else:
            command += ["--torch-backend", "cpu"]
    subprocess.run(command, input="\n".join(sorted(wanted)), text=True, check=True, env=environment, cwd=ROOT)
    # uv repeats the folder of local wheels for what it found there; a lock names versions, never places.
    pins = [line for line in lock.read_text().splitlines() if not line.startswith("--") and "file://" not in line]
    lock.write_text("\n".join(pins) + "\n")
    print(f"{lock.relative_to(ROOT)}: {len(pins)} packages")


def main() -> None:
    known = projects()
    development = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["dev"]
    light = set(development)
    for name in known:
        extras = tomllib.loads(known[name].read_text())["project"].get("optional-dependencies", {})
        light |= requirements(name, [extra for extra in extras if extra not in ("cpu", "cuda")], known)
    if "--services-only" not in sys.argv:
        compile_lock(LIGHT_LOCK, light)
    for service in LIGHT_SERVICES:
        wanted = requirements(f"ratchet-{service}-service", (), known)
        compile_lock(ROOT / "services" / service / "requirements.lock", wanted, constraint=LIGHT_LOCK)
    for service in ("trainer", "rollout"):
        for device in ("cpu", "cuda"):
            wanted = requirements(f"ratchet-{service}-service", [device], known)
            compile_lock(ROOT / "services" / service / f"requirements-{device}.lock", wanted, cpu_torch=device == "cpu")
    for source in (
        *ROOT.glob("services/sandbox/runtimes/*/requirements.in"),
        ROOT / "services/gateway/clients/requirements.in",
        ROOT / "libs/episodes/inspect/requirements.in",
    ):
        compile_lock(source.with_suffix(".lock"), set(source.read_text().splitlines()))


if __name__ == "__main__":
    main()
