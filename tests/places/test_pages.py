"""Somebody who follows a page "add a ..." word by word is done. Its steps are applied to a copy of the tree, and what
it says to run is run. Then the thing is there, also for those who ask the API."""

import json
import re
import sys
from pathlib import Path

import pytest

from .tree import Section, Tree, section

CATALOGUE = """
from google.protobuf.json_format import MessageToJson
from gateway_service import convert
print(MessageToJson(convert.catalogue_to_proto(), preserving_proto_field_name=True))
"""

BUILD = """
import asyncio
from gateway_service.servicer import PlatformServicer
from ratchet.gateway.v1 import platform_pb2
from ratchet_client.platform import Platform
from ratchet_protos.http import rules
method = platform_pb2.DESCRIPTOR.services_by_name["PlatformService"].methods_by_name["GetBuild"]
print(rules(method)[0].path, "build" in vars(Platform))
print(asyncio.run(PlatformServicer(None, None, None, None, None).GetBuild(platform_pb2.GetBuildRequest())).version)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree.copied(tmp_path)


def follow(tree: Tree, page: Section) -> None:
    tree.apply(page.steps)
    for command in page.checks:
        tree.run(*command.split(), *(["-q", "-n", "0", "-p", "no:cacheprovider"] if "pytest" in command else []))


def catalogue(tree: Tree) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(tree.run(sys.executable, "-c", CATALOGUE))
    return found


def test_an_algorithm(tree: Tree) -> None:
    follow(tree, section("extending.md", "Add an algorithm"))
    assert "ALGORITHM_OPO" in catalogue(tree)["algorithms"]
    assert " opo" in tree.run(".venvs/light/bin/ratchet", "train", "--help")


def test_a_hyperparameter(tree: Tree) -> None:
    follow(tree, section("extending.md", "Add a hyperparameter"))
    assert "| `critic_clip` (PPO, DAPO_STEPS) |" in (tree.root / "docs/training/hyperparameters.md").read_text()


def test_a_component(tree: Tree) -> None:
    follow(tree, section("extending.md", "Add a component"))
    assert "documented" in catalogue(tree)["rewards"]


def test_a_set_of_problems(tree: Tree) -> None:
    page = section("extending.md", "Add a set of problems")
    tree.apply(page.steps)
    assert "conversions" in catalogue(tree)["problem_sets"]
    assert "conversions" in tree.run(".venvs/light/bin/ratchet", "benchmarks", "list")


def test_a_benchmark(tree: Tree, tmp_path: Path) -> None:
    page = section("extending.md", "Add a benchmark")
    tree.apply(page.steps)
    assert "conversions" in catalogue(tree)["benchmarks"]
    (tree.root / "conversions.jsonl").write_text(page.block('{"task_id"'))
    fetch, data = page.block("ratchet data fetch").split(), str(tmp_path / "data")
    fetch[0] = ".venvs/light/bin/ratchet"
    with pytest.raises(AssertionError) as said:
        tree.run(*fetch, RATCHET_DATA=data)
    digest = re.search(r"[0-9a-f]{64}", str(said.value))
    assert digest is not None, said.value
    module = tree.root / next(page.steps).path
    module.write_text(module.read_text().replace('Edition("v1", ""', f'Edition("v1", "{digest[0]}"'))
    tree.run(*fetch, RATCHET_DATA=data)
    load = "import ratchet_benchmarks; print(len(ratchet_benchmarks.load('conversions').problems))"
    assert tree.run(sys.executable, "-c", load, RATCHET_DATA=data).strip() == "2"


def test_an_rpc(tree: Tree) -> None:
    follow(tree, section("service-shape.md", "Add an RPC"))
    assert tree.run(sys.executable, "-c", BUILD).split() == ["/api/v1/build", "True", "0.1.0"]
