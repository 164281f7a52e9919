"""Values that the contract suites put in stores."""

from datetime import timedelta

from ratchet_kit.idempotency import Request
from ratchet_kit.names import VersionRef
from registry_service.domain.gate import Gate, GateSpec
from registry_service.domain.gate_rules import GateRules, Guard
from registry_service.domain.ports import Stores
from registry_service.domain.version import Artifact, Lineage, Version, VersionSpec

from ..conftest import NOW, starter

LEASE = timedelta(minutes=1)
LINEAGE = Lineage(
    base=VersionRef("starter", 1),
    run_id="run_1",
    data_digest="sha256:d",
    config_digest="c",
    code_version="v",
    step=9,
    drawn_digests=("sha256:e", "sha256:f"),
)


def request(id: str = "req_1", fingerprint: str = "f") -> Request:
    return Request(id, fingerprint)


def spec(model: str = "starter") -> VersionSpec:
    return VersionSpec(model, "/source", LINEAGE, {"kind": "sft"})


def artifact(id: str) -> Artifact:
    return Artifact(
        f"/artifacts/models/starter/{id}", "ab" * 32, "sha256:" + "cd" * 32, 3_000_000_000, "sha256:" + "ef" * 32
    )


async def add_version(stores: Stores, id: str = "req_1", model: str = "starter") -> Version:
    """A PENDING version."""
    return await stores.versions.create(spec(model), NOW, request(id))


async def add_ready(stores: Stores, id: str = "req_1", model: str = "starter") -> Version:
    """A version whose artifact is the upload "starter/<id>"."""
    version = await add_version(stores, id, model)
    await stores.versions.begin_upload(f"starter/{id}", NOW)
    return await stores.versions.complete(
        version.ref,
        lambda version: version.claim("a", NOW, LEASE).complete("a", artifact(id), NOW),
        f"starter/{id}",
    )


def gate(id: str) -> Gate:
    rules = GateRules("composed/test", (Guard("mbpp", 0.125),), max_unsolved=0, max_tampered_share=0.5)
    return Gate(id, GateSpec(starter(2), "eval_2", "eval_1", 0.25, rules), starter(1), NOW)
